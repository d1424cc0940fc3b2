// Drafter: proposes the tokens behind the next one, from the hidden streams of the model.
//
// One round for sequences whose next tokens are known:
//
//   drafter.Forward(next tokens, rows of the last Forward, kForward);   // commits their keys
//   drafter.Logits(rows) -> draft tokens
//   drafter.Forward(drafts, rows of the last call, kDraft);             // as often as max_depth -
//   1 drafter.Logits(rows) -> further drafts
//
// A rejected draft needs no call: the next Forward overwrites its keys.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "model/batch.h"

namespace fathom {

// Where a drafter finds the hidden streams of a position.
enum class StreamSource {
  kForward,  // in a row of the last Forward of the model
  kKept,     // kept of the newest position of the sequence
  kDraft,    // in a row of the drafter's last Forward: a draft after a draft
};

// Uses the model's state, which owns its weights and caches and outlives it. One thread at a time;
// with several ranks, all call the same functions in the same order.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Tokens that can be drafted ahead of a verified one.
  virtual int max_depth() const = 0;
  // The checks and errors of Forward, and room in the caches; the same call of Forward finds it.
  virtual Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) = 0;
  // Row i of `next` is the token that follows a position whose hidden streams are known, at that
  // position: the streams are those of row stream_rows[i] of the source (empty with kKept). Stores
  // the drafter's keys. Errors: positions that are not those of the streams; those of
  // Model::Forward.
  virtual Status Forward(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) = 0;
  // Logits of rows of the last Forward: they predict the token after the next.
  virtual Result<Matrix<const float>> Logits(std::span<const std::int32_t> rows) = 0;
};

}  // namespace fathom
