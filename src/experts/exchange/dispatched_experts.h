// DispatchedExperts: the fused exchange between ranks that have tokens of their own.
//
// A rank sends its tokens to the ranks that have their experts (experts/exchange/expert_message.h).
// While they are in flight, the rank computes its experts for its own tokens, if they are many, and
// the shared expert; then it computes the arrived tokens of other ranks and sends the outputs back
// chunk by chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "experts/exchange/expert_exchange.h"
#include "experts/exchange/expert_flow.h"
#include "experts/exchange/expert_message.h"
#include "experts/exchange/expert_order.h"
#include "kernels/laid_out_buffer.h"

namespace fathom::experts {

class DispatchedExperts : public ExpertExchange {
 public:
  // T: tokens of all ranks together, also the most tokens that one rank can have or receive.
  struct Views {
    Matrix<std::int32_t> homes;   // [T, k]: homes of this rank's tokens
    Matrix<std::int32_t> ids;     // [T, k]: ids of the chunk that is computed
    Matrix<std::uint8_t> packed;  // [T, d + d / 128]: this rank's tokens
    Matrix<std::byte> sent;       // messages with these tokens
    Matrix<std::byte> received;   // messages with the tokens of other ranks, unpacked into:
    Matrix<Bf16> x;               // [T, d]
    Matrix<std::int32_t> here;    // [T, k]: experts of these tokens here, then kRemoteExpert
    Matrix<float> weights;        // [T, k]
    Matrix<Bf16> rows;            // [T * k, d]: outputs of these tokens
    Matrix<Bf16> sent_rows;       // the outputs, packed
    Matrix<Bf16> received_rows;   // [T * k, d]: outputs for this rank's tokens
  };
  static Views LayOut(BufferLayout& memory, const ExchangeShape& shape, int n_ranks);
  DispatchedExperts(Backend& backend, Communicator& ranks, const ExchangeShape& shape,
                    LaidOutBuffer<Views> memory);

  Status Run(const ExpertWork& work) override;
  std::int64_t bytes() const override { return memory_.bytes(); }

 private:
  // The messages to and from one rank. For this rank only `in` and first_token (the row of its own
  // tokens among the tokens of all ranks) are used.
  struct Peer {
    DispatchCounts out;
    DispatchCounts in;
    std::span<std::byte> message;  // from that rank
    std::int64_t first_token = 0;  // row among the tokens of all other ranks
    bool is_computed = false;
  };

  Status SendTokens(const ExpertWork& work);
  std::span<const std::byte> PackMessage(const ExpertWork& work, int to, std::byte* memory);
  bool IsWorthComputingAlone(const ExpertWork& work) const;
  Status ComputeOwn(const ExpertWork& work);
  // Waits for the counts, after which tokens can be received.
  Status AwaitCounts(const ExpertWork& work);
  Status PollArrivals(const ExpertWork& work);
  Status ReadCounts(const ExpertWork& work);
  Status ComputeArrived(const ExpertWork& work);
  Status ComputeTogether(const ExpertWork& work);
  Status Unpack(int from);
  Status ComputeGroup(const ExpertWork& work, std::span<const int> group);
  int AfterMe(int step) const { return (ranks_.rank() + step) % ranks_.size(); }

  Backend& backend_;
  Communicator& ranks_;
  ExchangeShape shape_;
  LaidOutBuffer<Views> memory_;
  const Views& views_;
  Outbox outbox_;
  RowSender sender_;
  RowReceiver receiver_;
  ExpertOrder order_;
  std::vector<Peer> peers_;           // by rank
  std::unique_ptr<Exchange> counts_;  // counts in flight, or null
  std::unique_ptr<Exchange> tokens_;  // tokens in flight from sources_, or null
  std::vector<int> sources_;
  std::vector<int> group_;
};

}  // namespace fathom::experts
