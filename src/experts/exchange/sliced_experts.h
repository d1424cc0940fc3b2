// SlicedExperts: the fused exchange between ranks that all have the same tokens.
//
// Every rank owns a slice of the tokens. No activation is sent: a rank computes its experts for all
// tokens, sends each row to the owner of its token while it computes the next rows, adds up its
// slice and sends the sums to all ranks.
//
// The sums need not wait for the last chunk: a token is complete after the last chunk that has any
// of its experts, which all ranks know. So tokens are computed in the order of their completion,
// and the sums of complete tokens are sent while the next chunk is computed.
//
// Rows, sums and the messages of the shared expert are sent at the same time, each kind in a fixed
// order, but the order among the kinds depends on the speed of the ranks: so each kind has its own
// communicator.
#pragma once

#include <memory>
#include <vector>

#include "experts/exchange/expert_exchange.h"
#include "experts/exchange/expert_flow.h"
#include "experts/exchange/expert_order.h"
#include "kernels/laid_out_buffer.h"

namespace fathom::experts {

class SlicedExperts : public ExpertExchange {
 public:
  // Rows: slice after slice, the tokens of each slice in the order of their completion.
  struct Views {
    Matrix<std::int32_t> token_homes;  // [t, k]: in the order of the tokens
    Matrix<Bf16> x;                    // [t, d]
    Matrix<std::int32_t> ids;          // [t, k]
    Matrix<float> weights;             // [t, k]
    Matrix<std::int32_t> homes;        // [t, k]
    Matrix<std::int32_t> chosen;       // [t, k]: ids of the chunk that is computed
    Matrix<Bf16> sums;                 // [t, d]
    Matrix<Bf16> sent;                 // [t * k, d]
    Matrix<Bf16> received;             // [slice * k, d]
  };
  using Ranks = std::unique_ptr<Communicator>;

  static Views LayOut(BufferLayout& memory, const ExchangeShape& shape, int n_ranks);
  SlicedExperts(Backend& backend, Ranks row_ranks, Ranks sum_ranks, const ExchangeShape& shape,
                LaidOutBuffer<Views> memory);

  Status Run(const ExpertWork& work) override;
  std::int64_t bytes() const override { return memory_.bytes(); }

 private:
  // Returns the rows of the owner's slice.
  Piece Slice(int owner) const {
    const std::int64_t first = n_tokens_ * owner / ranks_->size();
    return {first, n_tokens_ * (owner + 1) / ranks_->size() - first};
  }
  // Returns the rows of the slice that are complete after this chunk.
  Piece CompleteWith(int owner, int chunk) const {
    const std::size_t i = static_cast<std::size_t>(owner * experts_.n_chunks() + chunk);
    return {first_complete_[i], first_complete_[i + 1] - first_complete_[i]};
  }
  void OrderExperts(const ExpertWork& work);
  void OrderTokens(const ExpertWork& work);
  void CopyInOrder(const ExpertWork& work);
  // Starts the receives of the sums of other slices.
  Status ExpectSums();
  Status Compute(const ExpertWork& work);
  Status ComputeChunk(const ExpertWork& work, int chunk);
  Status RunShared(const ExpertWork& work);
  // Sends the sums, unless sent before, of all chunks up to n_computed whose rows have arrived.
  Status SendSums(const ExpertWork& work, int n_computed);
  Status Finish(const ExpertWork& work);

  Backend& backend_;
  Ranks ranks_;  // communicator for rows
  Ranks sum_ranks_;
  ExchangeShape shape_;
  LaidOutBuffer<Views> memory_;
  const Views& views_;
  Outbox outbox_;
  Outbox sum_outbox_;
  RowSender sender_;
  RowReceiver receiver_;
  // --- The running call ---
  std::int64_t n_tokens_ = 0;
  int n_summed_ = 0;  // chunks whose sums are complete
  ExpertOrder experts_;
  std::vector<std::int64_t> tokens_;          // by row
  std::vector<int> last_chunk_;               // the last chunk that a token needs
  std::vector<std::int64_t> first_complete_;  // row, by owner and chunk
  std::vector<Incoming> incoming_;
  std::unique_ptr<Exchange> sums_;  // sums to receive
};

}  // namespace fathom::experts
