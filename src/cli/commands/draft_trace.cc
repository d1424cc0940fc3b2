#include "cli/commands/draft_trace.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "checkpoint/safetensors_writer.h"
#include "model/draft/dspark.h"

namespace fathom::cli {
namespace {

template <class T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

template <class T>
std::span<const std::byte> BytesOfAll(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

Token Best(std::span<const float> logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

Result<std::vector<std::int64_t>> ParseDraftPositions(std::string_view text,
                                                      std::int64_t n_tokens) {
  std::vector<std::int64_t> positions;
  while (true) {
    const std::string_view entry = text.substr(0, text.find(','));
    std::int64_t position = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), position);
    if (error != std::errc() || end != entry.data() + entry.size() || position < 0 ||
        position >= n_tokens - 1 || (!positions.empty() && position <= positions.back())) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--draft-at: expected ascending positions from 0 to {}, which have a token "
                       "behind them, found \"{}\"",
                       n_tokens - 2, entry);
    }
    positions.push_back(position);
    if (entry.size() == text.size()) return positions;
    text.remove_prefix(entry.size() + 1);
  }
}

DraftTraceRun::DraftTraceRun(std::vector<std::int64_t> positions, std::vector<Token> tokens)
    : positions_(std::move(positions)), tokens_(std::move(tokens)) {}

Status DraftTraceRun::CheckHead(const Checkpoint& checkpoint) {
  const Result<DraftHead> head = FindDraftHead(checkpoint);
  if (!head) return Unexpected(head.error());
  if (head->kind == &kDSparkDrafter) return {};
  return MakeError(
      ErrorCode::kUnsupported,
      "--draft-at: expected a checkpoint with a DSpark drafter, found the head {} ({})",
      head->name(), checkpoint.path().string());
}

std::int64_t DraftTraceRun::EndOfStep(std::int64_t position, std::int64_t end) const {
  const auto next = std::ranges::lower_bound(positions_, position);
  return next == positions_.end() ? end : std::min(end, *next + 1);
}

void DraftTraceRun::Attach(Model& model) {
  const DSparkConfig& dspark = *model.config().dspark;
  hidden_ = model.config().hidden_size;
  vocab_size_ = model.config().vocab_size;
  block_ = dspark.dspark_block_size;
  n_stages_ = dspark.n_stages;
  model.drafter()->set_trace(&trace_);
}

Status DraftTraceRun::AfterStep(Model& model, std::int64_t position, std::int64_t n_rows) {
  const std::int64_t last = position + n_rows - 1;
  if (!std::ranges::binary_search(positions_, last)) return {};
  Batch next;
  next.Add(0, static_cast<std::int32_t>(last), {&tokens_[static_cast<std::size_t>(last + 1)], 1});
  const std::int32_t row = static_cast<std::int32_t>(n_rows - 1);
  if (Status committed = model.drafter()->Commit(next, {&row, 1}, StreamSource::kForward);
      !committed) {
    return committed;
  }
  const DraftRequest request = {.row = 0, .n_drafts = block_};
  const Status drafted = model.drafter()->Propose(
      {&request, 1}, {}, [this](const DraftLogits& found, std::span<Token> tokens) {
        tokens[0] = Best(found.logits.RowSpan(0));
        drafts_.push_back(tokens[0]);
        return Status();
      });
  if (!drafted) return drafted;
  Append(trace_.logits, logits_);
  Append(trace_.base_logits, base_logits_);
  Append(trace_.streams, streams_);
  Append(trace_.confidences, confidences_);
  return {};
}

Status DraftTraceRun::Write(const std::filesystem::path& path) const {
  const std::int64_t n = std::ssize(positions_);
  const std::int64_t n_main = positions_.back() + 1;
  const std::vector<SafetensorsWriter::Declaration> tensors = {
      {"step_pos", DType::kI32, {n}},
      {"draft_tokens", DType::kI32, {n, block_}},
      {"draft_logits", DType::kF32, {n, block_, vocab_size_}},
      {"draft_base_logits", DType::kF32, {n, block_, vocab_size_}},
      {"confidence", DType::kF32, {n, block_}},
      {"draft_streams", DType::kBF16, {n, n_stages_ + 1, block_, kStreams, hidden_}},
      {"main_x", DType::kBF16, {n_main, hidden_}},
  };
  const std::vector<std::int32_t> positions(positions_.begin(), positions_.end());
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
  if (!writer) return Unexpected(writer.error());
  const std::span<const Bf16> main_x =
      std::span(trace_.main_x).first(static_cast<std::size_t>(n_main * hidden_));
  for (const std::span<const std::byte> bytes :
       {BytesOfAll(positions), BytesOfAll(drafts_), BytesOfAll(logits_), BytesOfAll(base_logits_),
        BytesOfAll(confidences_), BytesOfAll(streams_), std::as_bytes(main_x)}) {
    if (Status written = writer->Append(bytes); !written) return written;
  }
  return writer->Finish();
}

}  // namespace fathom::cli
