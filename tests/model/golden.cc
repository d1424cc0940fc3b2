#include "tests/model/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/model/draft_logits.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

Divergence Floor(const nlohmann::json& golden, const char* name) {
  const nlohmann::json& floor = golden.at("noise_floor").at(name);
  return {.median = floor.at("kl_p50").get<double>(), .mean = floor.at("kl_mean").get<double>()};
}

std::vector<std::int32_t> Integers(const Checkpoint& file, std::string_view name) {
  const TensorView* tensor = file.Find(name);
  if (tensor == nullptr) {
    return {};
  }
  const auto* data = tensor->As<std::int32_t>();
  return {data, data + tensor->shape[0]};
}

}  // namespace

Golden ReadGolden(const std::filesystem::path& directory, const std::string& name) {
  Golden golden;
  Result<Checkpoint> file = Checkpoint::Open(directory / (name + ".safetensors"));
  EXPECT_TRUE(file) << (file ? "" : file.error().message);
  golden.file = std::move(file.value());
  golden.tokens = Integers(golden.file, "tokens");
  golden.positions = Integers(golden.file, "positions");
  const auto json = nlohmann::json::parse(ReadFile(directory / (name + ".json")));
  golden.n_prefill = json.at("n_prefill").get<std::int64_t>();
  golden.logits_floor = Floor(json, "logits");
  golden.mtp_floor = Floor(json, "mtp_logits");
  return golden;
}

Matrix<const float> Golden::Floats(std::string_view name) const {
  const TensorView* tensor = file.Find(name);
  return {tensor->As<float>(), tensor->shape[0], tensor->shape[1]};
}

Matrix<const Bf16> Golden::Streams(std::int64_t layer) const {
  const TensorView* tensor = file.Find("streams");
  const std::int64_t rows = tensor->shape[1];
  const std::int64_t cols = tensor->shape[2] * tensor->shape[3];
  return Matrix<const Bf16>{tensor->As<Bf16>(), tensor->shape[0] * rows, cols}.Rows(layer * rows,
                                                                                    rows);
}

namespace {

// The rows of [first, first + count) that `positions` lists, relative to first.
std::vector<std::int32_t> RowsWanted(const std::vector<std::int32_t>& positions, std::int64_t first,
                                     std::int64_t count) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    if (positions.empty() || std::find(positions.begin(), positions.end(),
                                       static_cast<std::int32_t>(first + i)) != positions.end()) {
      rows.push_back(static_cast<std::int32_t>(i));
    }
  }
  return rows;
}

// Logits by position, collected chunk by chunk.
using LogitRows = std::map<std::int32_t, std::vector<float>>;

template <class Logits>
void CollectLogits(const std::vector<std::int32_t>& rows, std::int64_t first, std::int64_t tile,
                   const Logits& logits, LogitRows& out) {
  for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(tile)) {
    const std::size_t n = std::min(static_cast<std::size_t>(tile), rows.size() - i);
    const Matrix<const float> part = logits(std::span(rows).subspan(i, n));
    for (std::size_t r = 0; r < n; ++r) {
      const auto row = part.RowSpan(static_cast<std::int64_t>(r));
      out[static_cast<std::int32_t>(first) + rows[i + r]].assign(row.begin(), row.end());
    }
  }
}

// The rows in the order of `positions`, which may be any and name one twice; empty: ascending.
// Positions without a row (the last one has no MTP logits) are left out.
std::vector<float> InOrder(const LogitRows& rows, const std::vector<std::int32_t>& positions) {
  std::vector<float> result;
  const auto append = [&](const std::vector<float>& row) {
    result.insert(result.end(), row.begin(), row.end());
  };
  if (positions.empty()) {
    for (const auto& [position, row] : rows) {
      append(row);
    }
  }
  for (const std::int32_t position : positions) {
    if (const auto found = rows.find(position); found != rows.end()) {
      append(found->second);
    }
  }
  return result;
}

}  // namespace

ModelLogits RunModel(Model& model, const std::vector<Token>& tokens,
                     const std::vector<std::int32_t>& positions, std::int64_t chunk) {
  LogitRows logits;
  LogitRows mtp_logits;
  const std::int64_t tile = model.options().max_logit_rows;
  const auto total = static_cast<std::int64_t>(tokens.size());
  Batch batch;
  for (std::int64_t first = 0; first < total; first += chunk) {
    const std::int64_t n = std::min(chunk, total - first);
    const std::span<const Token> all = tokens;
    batch.Clear();
    batch.Add(0, static_cast<std::int32_t>(first),
              all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
    const Status ran = model.Forward(batch);
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    CollectLogits(
        RowsWanted(positions, first, n), first, tile,
        [&](auto rows) { return *model.Logits(rows); }, logits);
    const std::int64_t n_mtp = std::min(n, total - 1 - first);
    if (!model.options().with_draft || n_mtp == 0) {
      continue;
    }
    batch.Clear();
    batch.Add(0, static_cast<std::int32_t>(first),
              all.subspan(static_cast<std::size_t>(first + 1), static_cast<std::size_t>(n_mtp)));
    std::vector<std::int32_t> stream_rows(static_cast<std::size_t>(n_mtp));
    std::iota(stream_rows.begin(), stream_rows.end(), 0);
    const Status drafted = model.drafter()->Commit(batch, stream_rows, StreamSource::kForward);
    EXPECT_TRUE(drafted) << (drafted ? "" : drafted.error().message);
    const std::vector<std::int32_t> rows = RowsWanted(positions, first, n_mtp);
    const std::vector<float> drafts = LogitsOfDrafts(*model.drafter(), rows);
    const auto n_rows = static_cast<std::int64_t>(rows.size());
    CollectLogits(
        rows, first, n_rows,
        [&](auto) {
          return Matrix<const float>{drafts.data(), n_rows, model.config().vocab_size};
        },
        mtp_logits);
  }
  return {InOrder(logits, positions), InOrder(mtp_logits, positions)};
}

namespace {

double LogSumExp(const float* row, std::int64_t n) {
  const double maximum = *std::max_element(row, row + n);
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += std::exp(row[i] - maximum);
  }
  return maximum + std::log(sum);
}

}  // namespace

Divergence KlDivergence(Matrix<const float> expected, const std::vector<float>& actual) {
  EXPECT_EQ(static_cast<std::int64_t>(actual.size()), expected.rows * expected.cols);
  std::vector<double> rows;
  for (std::int64_t r = 0; r < expected.rows; ++r) {
    const float* p = expected.Row(r);
    const float* q = actual.data() + r * expected.cols;
    const double p_total = LogSumExp(p, expected.cols);
    const double q_total = LogSumExp(q, expected.cols);
    double kl = 0.0;
    for (std::int64_t i = 0; i < expected.cols; ++i) {
      const double log_p = p[i] - p_total;
      kl += std::exp(log_p) * (log_p - (q[i] - q_total));
    }
    rows.push_back(kl);
  }
  std::sort(rows.begin(), rows.end());
  return {
      .median = rows[rows.size() / 2],
      .mean = std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size())};
}

}  // namespace fathom::testing
