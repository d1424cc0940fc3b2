// The trace of `fathom logits --draft-at`: records the computation of a DSpark drafter after given
// positions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "model/draft/dspark_trace.h"
#include "model/model.h"

namespace fathom::cli {

// Parses "3,17,250": ascending positions, each followed by a token. Error: any other text, or a
// position outside [0, n_tokens - 1).
Result<std::vector<std::int64_t>> ParseDraftPositions(std::string_view text, std::int64_t n_tokens);

// Drafts greedily after the positions while the tokens of a text are computed, and keeps the
// numbers in memory until they are written. One thread.
class DraftTraceRun {
 public:
  DraftTraceRun(std::vector<std::int64_t> positions, std::vector<Token> tokens);

  // Error: the checkpoint has no DSpark drafter.
  static Status CheckHead(const Checkpoint& checkpoint);

  // Returns the end of the step that begins at `position` and would end at `end`: a position after
  // which drafts are requested ends a step.
  std::int64_t EndOfStep(std::int64_t position, std::int64_t end) const;
  // Call before the first step; the run must outlive the model's steps.
  void Attach(Model& model);
  // Call after a step of the model that began at `position` and has n_rows rows.
  Status AfterStep(Model& model, std::int64_t position, std::int64_t n_rows);
  // Writes step_pos, draft_tokens, draft_logits, draft_base_logits, draft_streams, main_x and
  // confidence (docs/drafts.md).
  Status Write(const std::filesystem::path& path) const;

 private:
  std::vector<std::int64_t> positions_;
  std::vector<Token> tokens_;
  DSparkTrace trace_;  // the trace of one step, and main_x of all steps
  std::int64_t hidden_ = 0;
  std::int64_t block_ = 0;
  std::int64_t n_stages_ = 0;
  std::int64_t vocab_size_ = 0;
  // The numbers of all positions, in order.
  std::vector<std::int32_t> drafts_;
  std::vector<float> logits_;
  std::vector<float> base_logits_;
  std::vector<Bf16> streams_;
  std::vector<float> confidences_;
};

}  // namespace fathom::cli
