// ExpertExchange: the routed experts of a layer where several ranks share them
// (docs/spec/parallel.md 4). One operation: tokens are sent to the ranks that have their experts,
// the experts' outputs are sent back to the token's owner, which adds them in ascending expert id,
// then the shared expert.
//
// Tensor ranks all have the same tokens; data ranks each have their own.
// kGather sends all tokens and outputs to all ranks, and computes when everything has arrived.
// kFused sends each token and output only to the ranks that need it, and computes meanwhile.
//
// d: hidden size; k: experts per token; N: ranks. Bytes that rank r sends in one layer:
//
//   kFused, own tokens (t of them on this rank)
//     out    8 to every other rank, if t > 0
//            d + d / 128 per token and other rank that has any of its experts (E4M3 and scales)
//            12 per chosen expert on another rank (token, expert, routing weight)
//     back   2 d per expert computed here that a token of another rank chose
//   kFused, the same tokens (t on all; a slice of t / N or one more has this rank as its owner)
//     back   2 d per expert computed here that a token of another's slice chose
//     sums   2 d to every other rank per token of this rank's slice
//   kGather, own tokens
//     out    (2 d + 12 k) to every other rank per token
//     back   2 d to every other rank per expert computed here
//   kGather, the same tokens
//     back   2 d to every other rank per expert computed here
//
// The result equals the result of a single rank bit for bit: activations are sent as the E4M3
// numbers to which the product would convert them (experts/exchange/expert_message.h), and a row of
// an expert does not depend on the rows it is computed with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "distributed/model_ranks.h"
#include "kernels/backend.h"

namespace fathom::experts {

// Properties of all calls, the same on all ranks.
struct ExchangeShape {
  std::int64_t max_tokens = 0;  // tokens in one call, on all ranks together
  std::int64_t hidden = 0;      // a multiple of 128 for kFused
  std::int64_t experts_per_token = 0;
  std::int64_t n_experts = 0;
  ExpertPath path = ExpertPath::kFused;
  bool own_tokens = false;  // every rank has tokens of its own; otherwise all have the same tokens
  // Each call of `local` contains as many experts as possible. This suits experts that are read
  // from disk, which are then read together, and once. Otherwise outputs are sent while others are
  // computed.
  bool in_one_call = false;
};

// Returns the rank that computes this expert for a token at this position.
using ExpertHome = std::function<int(std::int32_t position, std::int32_t expert)>;
// Returns the rank that computes an expert of any block.
using ExpertHomes =
    std::function<int(std::int64_t block, std::int32_t position, std::int32_t expert)>;

// One layer's experts for t tokens of this rank. All matrices are in memory that backend and host
// share.
struct ExpertWork {
  Matrix<const Bf16> x;  // [t, d]
  Routing routing;       // [t, k]; kRemoteExpert: a token that only fills the batch
  std::span<const std::int32_t> positions;  // [t]
  // Tokens of each rank [N] if own_tokens; equal on all ranks.
  std::span<const std::int64_t> tokens_of_rank;
  ExpertHome home;
  // Computes Backend::ExpertRows of this layer, for ids that belong to this rank or are
  // kRemoteExpert.
  std::function<Status(Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> rows)> local;
  // Writes the shared expert's output of the t tokens into y. May call the other ranks.
  std::function<Status()> shared;
  Matrix<Bf16> rows;  // [t * k, d]: scratch
  Matrix<Bf16> y;     // [t, d]: the result
};

// Owns its buffers, allocated at the start for the largest call. All ranks call Run at the same
// time, with empty work where a rank has no tokens. After an error the ranks cannot continue.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  // Error kInvalidArgument, before anything is sent: more tokens than max_tokens. Other errors: as
  // `local`, `shared` or the communicator.
  virtual Status Run(const ExpertWork& work) = 0;
  virtual std::int64_t bytes() const = 0;  // bytes of the buffers
};

// Called by all ranks. ranks and backend must outlive the exchange. Error: no memory.
Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(Backend& backend, Communicator& ranks,
                                                           const ExchangeShape& shape);

// Returns the bytes that the buffers of an exchange take.
std::int64_t ExchangeBytes(const ExchangeShape& shape, int n_ranks);

// Divides the logical experts into contiguous pieces, rank by rank.
ExpertHome ContiguousHomes(std::int64_t n_experts, int n_ranks);

}  // namespace fathom::experts
