// Drafter: drafts tokens behind the next one, from the hidden streams of the model.
//
// A step, for sequences whose next tokens are known after Model::Forward:
//
//   drafter.Commit(next tokens, rows of that Forward, StreamSource::kForward);
//   drafter.Propose({row of the commit, number of drafts}, choose);  // for those that are drafted
//
// A rejected draft needs no call that rolls it back: a draft writes behind the committed positions
// only, and the next Commit overwrites what it wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "model/batch.h"
#include "sampling/sampling_row.h"

namespace fathom {

struct DSparkTrace;
struct Step;

// The place of the hidden streams of committed positions.
enum class StreamSource {
  kForward,  // in rows of the last Forward of the model
  kKept,     // kept of the newest position of the sequence
};

// Asks for drafts behind a token of the last Commit.
struct DraftRequest {
  std::int32_t row = 0;       // of the last Commit
  std::int64_t n_drafts = 0;  // at most; a drafter may draft fewer
};

// Logits that choose drafts: row i those of the next draft for the request with the index
// requests[i].
struct DraftLogits {
  std::span<const std::int32_t> requests;
  Matrix<const float> logits;            // with several ranks: no rows, but on rank 0
  bool every_rank_needs_tokens = false;  // the drafter computes further drafts from the tokens
  // The drafter's opinion of each draft that is chosen now: the logit of the probability that it is
  // right if those before it are. Empty where the drafter has none.
  std::span<const float> confidences{};
};

// A request gets no more drafts.
inline constexpr Token kNoDraft = -1;

// Sets tokens[i] to the token that row i of the logits chooses, or to kNoDraft. Called on every
// rank; if every rank needs the tokens, all set those that rank 0 chooses. An error ends Propose.
using ChooseDrafts = std::function<Status(const DraftLogits& found, std::span<Token> tokens)>;

// Propose where the backend chooses: what it is told of rows, and what it has chosen.
struct DraftSampling {
  // Describes the next draft of each request; valid until the choices are taken.
  std::function<std::span<const SamplingRow>(std::span<const std::int32_t> requests)> describe;
  // Sets tokens[i] to the draft of requests[i], from choices[i], or to kNoDraft.
  std::function<void(std::span<const std::int32_t> requests, std::span<const TokenChoice> choices,
                     std::span<Token> tokens)>
      take;
};

// Uses the model's state, which owns its weights and caches and outlives it. One thread at a time;
// with several ranks, all call the same functions in the same order.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Tokens that can be drafted ahead of a verified one.
  virtual int max_depth() const = 0;

  // Called by Model::Forward behind each layer that this process has, before the batch counts as
  // computed: reads what it will need of the layer's streams, step.a.streams, those of the rows of
  // `whole` that this process computes.
  virtual void Tap(std::int64_t layer, const BatchView& whole, const Step& step) = 0;

  // The checks and errors of Commit, and room in the caches; the same call of Commit finds it.
  virtual Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) = 0;
  // Row i of `next` is the token that follows a position whose hidden streams are known, at that
  // position: the streams are those of row stream_rows[i] of the source (empty with kKept). Stores
  // the drafter's keys. Errors: positions that are not those of the streams; those of
  // Model::Forward.
  virtual Status Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                        StreamSource source) = 0;
  // Drafts tokens behind rows of the last Commit, and has `choose` choose each of them from its
  // logits; requests name a row once. Afterwards these rows are gone, unless each request asked for
  // one draft. Errors: those of `choose` and of Model::Forward.
  virtual Status Propose(std::span<const DraftRequest> requests, const ChooseDrafts& choose) = 0;
  // Propose for a model that ChoosesTokens: the logits stay on the backend.
  virtual Status ProposeTokens(std::span<const DraftRequest> requests,
                               const DraftSampling& sampling) = 0;

  // Records what later calls compute (dspark_trace.h); null: nothing. A drafter of another kind
  // records nothing.
  virtual void set_trace(DSparkTrace* /*trace*/) {}
};

}  // namespace fathom
