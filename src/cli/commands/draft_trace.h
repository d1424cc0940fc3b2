// The trace of `fathom logits --draft-at`: records the computation of a DSpark drafter after given
// positions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "model/draft/dspark.h"
#include "model/draft/dspark_trace.h"
#include "model/model.h"

namespace fathom::cli {

// Parses "3,17,250": ascending positions, each followed by a token. Error: any other text, or a
// position outside [0, n_tokens - 1).
inline Result<std::vector<std::int64_t>> ParseDraftPositions(std::string_view text,
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

// Drafts greedily after the positions while the tokens of a text are computed, and keeps the
// numbers in memory until they are written. One thread.
class DraftTraceRun {
 public:
  DraftTraceRun(std::vector<std::int64_t> positions, std::vector<Token> tokens)
      : positions_(std::move(positions)), tokens_(std::move(tokens)) {}

  // Error: the checkpoint has no DSpark drafter.
  static Status CheckHead(const Checkpoint& checkpoint) {
    const Result<DraftHead> head = FindDraftHead(checkpoint);
    if (!head) return Unexpected(head.error());
    if (head->kind == &kDSparkDrafter) return {};
    return MakeError(
        ErrorCode::kUnsupported,
        "--draft-at: expected a checkpoint with a DSpark drafter, found the head {} ({})",
        head->name(), checkpoint.path().string());
  }

  // Returns the end of the step that begins at `position` and would end at `end`: a position after
  // which drafts are requested ends a step.
  std::int64_t EndOfStep(std::int64_t position, std::int64_t end) const {
    const auto next = std::ranges::lower_bound(positions_, position);
    return next == positions_.end() ? end : std::min(end, *next + 1);
  }
  // Call before the first step; the run must outlive the model's steps.
  void Attach(Model& model) {
    config_ = &model.config();
    model.drafter()->set_trace(&trace_);
  }
  // Call after a step of the model that began at `position` and has n_rows rows.
  Status AfterStep(Model& model, std::int64_t position, std::int64_t n_rows) {
    const std::int64_t last = position + n_rows - 1;
    if (!std::ranges::binary_search(positions_, last)) return {};
    Batch next;
    next.Add(0, static_cast<std::int32_t>(last), {&tokens_[static_cast<std::size_t>(last + 1)], 1});
    const std::int32_t row = static_cast<std::int32_t>(n_rows - 1);
    if (Status committed = model.drafter()->Commit(next, {&row, 1}, StreamSource::kForward);
        !committed) {
      return committed;
    }
    const DraftRequest request = {.row = 0, .n_drafts = config_->dspark->dspark_block_size};
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
  // Writes step_pos, draft_tokens, draft_logits, draft_base_logits, draft_streams, main_x and
  // confidence (docs/drafts.md).
  Status Write(const std::filesystem::path& path) const {
    const std::int64_t n = std::ssize(positions_);
    const std::int64_t n_main = positions_.back() + 1;
    const std::int64_t block = config_->dspark->dspark_block_size;
    const std::int64_t vocab_size = config_->vocab_size;
    const std::int64_t hidden = config_->hidden_size;
    const std::vector<SafetensorsWriter::Declaration> tensors = {
        {"step_pos", DType::kI32, {n}},
        {"draft_tokens", DType::kI32, {n, block}},
        {"draft_logits", DType::kF32, {n, block, vocab_size}},
        {"draft_base_logits", DType::kF32, {n, block, vocab_size}},
        {"confidence", DType::kF32, {n, block}},
        {"draft_streams",
         DType::kBF16,
         {n, config_->dspark->n_stages + 1, block, kStreams, hidden}},
        {"main_x", DType::kBF16, {n_main, hidden}},
    };
    const std::vector<std::int32_t> positions(positions_.begin(), positions_.end());
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
    if (!writer) return Unexpected(writer.error());
    const std::span<const Bf16> main_x =
        std::span(trace_.main_x).first(static_cast<std::size_t>(n_main * hidden));
    for (const std::span<const std::byte> bytes :
         {BytesOfAll(positions), BytesOfAll(drafts_), BytesOfAll(logits_), BytesOfAll(base_logits_),
          BytesOfAll(confidences_), BytesOfAll(streams_), std::as_bytes(main_x)}) {
      if (Status written = writer->Append(bytes); !written) return written;
    }
    return writer->Finish();
  }

 private:
  template <class T>
  static void Append(const std::vector<T>& from, std::vector<T>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  template <class T>
  static std::span<const std::byte> BytesOfAll(const std::vector<T>& numbers) {
    return std::as_bytes(std::span(numbers));
  }

  static Token Best(std::span<const float> logits) {
    return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
  }

  std::vector<std::int64_t> positions_;
  std::vector<Token> tokens_;
  DSparkTrace trace_;                    // the trace of one step, and main_x of all steps
  const ModelConfig* config_ = nullptr;  // of the attached model
  // The numbers of all positions, in order.
  std::vector<std::int32_t> drafts_;
  std::vector<float> logits_;
  std::vector<float> base_logits_;
  std::vector<Bf16> streams_;
  std::vector<float> confidences_;
};

}  // namespace fathom::cli
