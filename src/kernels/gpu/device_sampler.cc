#include "kernels/gpu/device_sampler.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/limits.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kMaxChanges = std::int64_t{1} << 14;  // changes of one launch

template <class Arguments>
void LaunchBlocks(GpuDriver& driver, GpuKernel kernel, std::int64_t blocks,
                  const Arguments& arguments) {
  LaunchWith(driver, kernel, {.x = blocks, .threads = kMaxBlockThreads}, arguments);
}

bool Truncates(const SamplingRule& rule) { return rule.truncates && !rule.is_greedy; }

}  // namespace

DeviceSampler::Memory DeviceSampler::LayOut(BufferLayout& buffer, std::int64_t rows,
                                            std::int64_t vocabulary) {
  const std::int64_t tiles = DivideUp(vocabulary, gpu::kTileTokens);
  return {.rules = buffer.Add<SamplingRule>(1, rows),
          .changed = buffer.Add<float>(rows, vocabulary),
          .keys = buffer.Add<std::uint32_t>(rows, vocabulary),
          .weights = buffer.Add<std::uint64_t>(rows, vocabulary),
          .scans = buffer.Add<gpu::LogitScan>(rows, tiles),
          .counts = buffer.Add<std::int32_t>(rows, tiles),
          .draws = buffer.Add<gpu::Draw>(rows, tiles),
          .kept = buffer.Add<gpu::KeptTokens>(1, rows),
          .choices = buffer.Add<TokenChoice>(1, rows),
          .changes = buffer.Add<gpu::LogitChange>(1, rows > 0 ? kMaxChanges : 0)};
}

std::int64_t DeviceSampler::BytesFor(std::int64_t max_rows, std::int64_t vocabulary) {
  return LayoutBytes([&](BufferLayout& buffer) { return LayOut(buffer, max_rows, vocabulary); });
}

Status DeviceSampler::Reserve(Backend& backend, std::int64_t max_rows, std::int64_t vocabulary) {
  memory_ = {};
  Result<LaidOutBuffer<Memory>> memory = AllocateLayout(
      backend, [&](BufferLayout& buffer) { return LayOut(buffer, max_rows, vocabulary); });
  if (!memory) return Unexpected(memory.error());
  memory_ = *std::move(memory);
  rules_.reserve(static_cast<std::size_t>(max_rows));
  changes_.reserve(static_cast<std::size_t>(kMaxChanges));
  return {};
}

gpu::SamplingArguments DeviceSampler::Arguments(Matrix<const float> logits) const {
  const Memory& m = memory_.views;
  return {.logits = logits,
          .rules = m.rules.data,
          .changed = m.changed,
          .keys = m.keys,
          .weights = m.weights,
          .scans = m.scans,
          .counts = m.counts,
          .draws = m.draws,
          .kept = m.kept.data,
          .choices = m.choices.data};
}

void DeviceSampler::FlushChanges(GpuDriver& driver) {
  if (changes_.empty()) return;
  const Memory& m = memory_.views;
  driver.Upload(m.changes.data, std::as_bytes(std::span(changes_)));
  const auto n = std::ssize(changes_);
  LaunchBlocks(driver, GpuKernel::kChangeLogits, DivideUp<std::int64_t>(n, kMaxBlockThreads),
               gpu::ChangeLogitsArguments{
                   .changes = m.changes.data, .n = n, .rules = m.rules.data, .logits = m.changed});
  changes_.clear();
}

template <class Append>
void DeviceSampler::Change(GpuDriver& driver, std::span<const SamplingRow> rows,
                           const Append& append) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    append(rows[i], [&](gpu::LogitChange change) {
      if (std::ssize(changes_) == kMaxChanges) {
        FlushChanges(driver);
      }
      change.row = static_cast<std::int32_t>(i);
      changes_.push_back(change);
    });
  }
  FlushChanges(driver);
}

// A token may have changes of each kind, whose order matters: each kind has a launch.
void DeviceSampler::ChangeLogits(GpuDriver& driver, std::span<const SamplingRow> rows) {
  using Kind = gpu::LogitChange::Kind;
  Change(driver, rows, [](const SamplingRow& row, const auto& add) {
    for (const Token token : row.excluded) {
      add({.kind = Kind::kExclude, .token = token});
    }
  });
  Change(driver, rows, [](const SamplingRow& row, const auto& add) {
    for (const auto& [token, bias] : row.biases) {
      add({.kind = Kind::kBias, .token = token, .bias = bias});
    }
  });
  Change(driver, rows, [](const SamplingRow& row, const auto& add) {
    for (const auto& [token, count] : row.counts) {
      add({.kind = Kind::kPenalize, .token = token, .count = count});
    }
  });
}

const TokenChoice* DeviceSampler::Choose(GpuDriver& driver, Matrix<const float> logits,
                                         std::span<const SamplingRow> rows) {
  const Memory& m = memory_.views;
  Check(std::ssize(rows) == logits.rows, "ChooseTokens: a rule for each row of logits");
  Check(logits.rows <= m.changed.rows && logits.cols == m.changed.cols,
        "ChooseTokens: logits of more rows, or another vocabulary, than Reserve announced");
  if (rows.empty()) return m.choices.data;
  rules_.clear();
  for (const SamplingRow& row : rows) {
    rules_.push_back(row.rule);
  }
  driver.Upload(m.rules.data, std::as_bytes(std::span(rules_)));
  gpu::SamplingArguments arguments = Arguments(logits);
  const std::int64_t tiles = logits.rows * m.scans.cols;
  const auto launch = [&](GpuKernel kernel, std::int64_t blocks) {
    LaunchBlocks(driver, kernel, blocks, arguments);
  };
  launch(GpuKernel::kScanLogits, tiles);
  if (std::ranges::any_of(rules_, &SamplingRule::changes_logits)) {
    ChangeLogits(driver, rows);
    arguments.changed_only = true;
    launch(GpuKernel::kScanLogits, tiles);
  }
  if (std::ranges::any_of(rules_, Truncates)) {
    launch(GpuKernel::kOrderTokens, tiles);
    launch(GpuKernel::kKeepTopK, logits.rows);
    if (std::ranges::any_of(
            rules_, [](const SamplingRule& rule) { return Truncates(rule) && rule.top_p < 1; })) {
      launch(GpuKernel::kWeighTokens, tiles);
      launch(GpuKernel::kKeepTopP, logits.rows);
    }
  }
  if (!std::ranges::all_of(rules_, &SamplingRule::is_greedy)) {
    launch(GpuKernel::kDrawTokens, tiles);
  }
  launch(GpuKernel::kTakeTokens, DivideUp<std::int64_t>(logits.rows, kMaxBlockThreads));
  return m.choices.data;
}

}  // namespace fathom::kernels
