// Drafter: drafts tokens after the next one, from the hidden streams of the model.
//
// A step, for sequences whose next tokens are known after Model::Forward:
//
//   drafter.Commit(next tokens, rows of that Forward, StreamSource::kForward);
//   drafter.Propose({row of the commit, number of drafts}, describe, choose);
//
// A rejected draft needs no call that rolls it back: a draft writes only after the committed
// positions, and the next Commit overwrites these rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "model/batch.h"
#include "sampling/sampling_row.h"

namespace fathom::model {

struct DSparkTrace;
struct Step;

// The place of the hidden streams of committed positions.
enum class StreamSource {
  kForward,  // in rows of the last Forward of the model
  kKept,     // stored for the newest position of the sequence
};

// Requests drafts after a token of the last Commit.
struct DraftRequest {
  std::int32_t row = 0;       // row of the last Commit
  std::int64_t n_drafts = 0;  // the most drafts; a drafter may draft fewer
};

// Logits that choose drafts: row i has the logits of the next draft for the request with the index
// requests[i].
struct DraftLogits {
  std::span<const std::int32_t> requests;
  // With several ranks, only rank 0 has rows.
  Matrix<const float> logits;              // of the rows that need them
  std::span<const TokenChoice> choices{};  // empty: the rows were not described
  bool every_rank_needs_tokens = false;    // the drafter computes further drafts from the tokens
  // The drafter's confidence in each draft that is chosen now: the logit of the probability that it
  // is right if the drafts before it are. Empty where the drafter has no confidences.
  std::span<const float> confidences{};
};

// The token that ends the drafts of a request.
inline constexpr Token kNoDraft = -1;

// Describes the rows of DraftLogits with these requests, as DescribeRows does (token_choices.h);
// only on rank 0.
using DescribeDrafts =
    std::function<std::span<const SamplingRow>(std::span<const std::int32_t> requests)>;

// Sets tokens[i] to the draft that row i chooses, or to kNoDraft. Called on every rank; if every
// rank needs the tokens, all set the tokens that rank 0 chooses. An error ends Propose.
using ChooseDrafts = std::function<Status(const DraftLogits& found, std::span<Token> tokens)>;

// Uses the model's state, which owns its weights and caches and must outlive it. One thread at a
// time; with several ranks, all call the same functions in the same order.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Returns how many tokens can be drafted after a verified one.
  virtual int max_depth() const = 0;

  // Called by Model::Forward after each layer that this process has, before the batch counts as
  // computed: copies the numbers that the drafter will need from the layer's streams,
  // step.a.streams: the rows of `whole` that this process computes.
  virtual void Tap(std::int64_t layer, const BatchView& whole, const Step& step) = 0;

  // Makes the checks of Commit, with its errors, and makes room in the caches for the same Commit.
  virtual Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) = 0;
  // Row i of `next` is the token that follows a position whose hidden streams are known, at that
  // position: the streams are in row stream_rows[i] of the source (empty with kKept). Stores the
  // drafter's keys. Errors: positions that differ from the positions of the streams; as
  // Model::Forward.
  virtual Status Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                        StreamSource source) = 0;
  // Drafts tokens after rows of the last Commit, and lets `choose` choose each of them; a row may
  // be in one request only. Without `describe`, it chooses from logits alone. Afterwards these rows
  // are lost, unless each request was for one draft. Errors: as `choose` and Model::Forward.
  virtual Status Propose(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                         const ChooseDrafts& choose) = 0;

  // Records the values that later calls compute (dspark_trace.h); null: stops. Other drafters
  // record nothing.
  virtual void set_trace(DSparkTrace* /*trace*/) {}
};

}  // namespace fathom::model
