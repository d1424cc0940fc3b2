// The parts of the fused exchanges: chunks of experts, and rows of outputs that are sent back chunk
// by chunk.
//
// A rank computes its experts in chunks, every chunk for many tokens: each expert's weights are
// read once for all of them, and the rows of a chunk are sent while the next one is computed. The
// tokens' experts determine the rows of each message, so both sides know them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "experts/exchange/expert_exchange.h"
#include "experts/exchange/expert_order.h"

namespace fathom::experts {

// With this many tokens per expert, on average, a processor needs longer to compute than to read
// the expert's weights.
inline constexpr std::int64_t kTokensWorthReading = 2;

// Fills homes [t, k]: the rank of each of ids [t, k]; kRemoteExpert stays.
void FindHomes(Matrix<const std::int32_t> ids, std::span<const std::int32_t> positions,
               const ExpertHome& home, Matrix<std::int32_t> homes);

// Fills chosen [t, k]: the ids [t, k] whose home is this rank; kRemoteExpert for the others.
void ChooseHere(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes, int rank,
                Matrix<std::int32_t> chosen);
// Fills chosen [t, k]: the ids [t, k] that are in this chunk; kRemoteExpert for the others. chosen
// may be ids.
void ChooseChunk(Matrix<const std::int32_t> ids, const ExpertOrder& order, int chunk,
                 Matrix<std::int32_t> chosen);

// Returns ExpertChunks for n_tokens on all n_ranks together, or 1 if `shape` asks for one call.
int CountChunks(const ExchangeShape& shape, std::int64_t n_tokens, int n_ranks);

// Error: more tokens than there is room for.
Status CheckTokens(std::int64_t n_tokens, std::int64_t max_tokens);

// Outgoing messages. Their memory must stay valid until Finish.
class Outbox {
 public:
  explicit Outbox(Communicator& ranks) : ranks_(ranks) {}
  Status Send(std::span<const Outgoing> messages);
  // Advances the messages without waiting.
  Status Poll();
  // Waits until all messages have been sent.
  Status Finish();

 private:
  Communicator& ranks_;
  std::vector<std::unique_ptr<Exchange>> on_their_way_;
};

// Packs rows of outputs and sends them. `memory` has room for all rows of a call.
class RowSender {
 public:
  RowSender(Outbox& outbox, Matrix<Bf16> memory) : outbox_(outbox), memory_(memory) {}
  void Begin() { n_rows_ = 0; }
  // Sends the rows [n * k, d] whose ids [n, k] are not kRemoteExpert, in order; sends nothing if
  // there are none.
  Status Send(int to, Matrix<const std::int32_t> ids, Matrix<const Bf16> rows);

 private:
  Outbox& outbox_;
  Matrix<Bf16> memory_;
  std::int64_t n_rows_ = 0;
};

// Receives the rows that are sent back for a rank's tokens. `memory` has room for all rows of a
// call.
class RowReceiver {
 public:
  RowReceiver(Communicator& ranks, Matrix<Bf16> memory) : ranks_(ranks), memory_(memory) {}

  // Begins a call: outputs of the ids [t, k] whose homes are other ranks go to rows [t * k, d]. The
  // views must stay valid until Finish.
  Status Begin(Matrix<const std::int32_t> ids, Matrix<const std::int32_t> homes,
               const ExpertOrder& order, Matrix<Bf16> rows);
  // Advances the messages without waiting.
  Status Poll();
  // Waits until more rows have arrived, or all.
  Status WaitForMore();
  Status Finish();
  // Returns the number of first chunks that have arrived from all ranks.
  int n_complete() const { return n_complete_; }

 private:
  // The rows of one chunk from one rank.
  struct Message {
    int from = 0;
    int chunk = 0;
    std::int64_t first = 0;  // row of memory_
    std::int64_t count = 0;
    bool is_placed = false;
  };
  bool Belongs(const Message& message, std::int64_t pair) const {
    return homes_.data[pair] == message.from && order_->Chunk(ids_.data[pair]) == message.chunk;
  }
  void PlaceArrived();

  Communicator& ranks_;
  Matrix<Bf16> memory_;
  Matrix<const std::int32_t> ids_;
  Matrix<const std::int32_t> homes_;
  Matrix<Bf16> rows_;
  const ExpertOrder* order_ = nullptr;
  int n_complete_ = 0;
  std::vector<Message> messages_;
  std::vector<Incoming> incoming_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace fathom::experts
