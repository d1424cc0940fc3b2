// GatheredExperts: the exchange that is not fused. Every rank receives the outputs of all ranks,
// and nothing is computed while messages are in flight. It is the baseline, and serves sizes that
// the fused exchanges do not support.
#pragma once

#include <span>
#include <vector>

#include "experts/exchange/expert_exchange.h"
#include "kernels/laid_out_buffer.h"

namespace fathom::experts {

class GatheredExperts : public ExpertExchange {
 public:
  // T: tokens of all ranks together. The first four only where every rank has tokens of its own.
  struct Views {
    Matrix<Bf16> x;              // [T, d]
    Matrix<std::int32_t> ids;    // [T, k]
    Matrix<float> weights;       // [T, k]
    Matrix<Bf16> rows;           // [T * k, d]
    Matrix<std::int32_t> homes;  // [T, k]
    Matrix<std::int32_t> here;   // [T, k]: ids whose home is this rank
    Matrix<Bf16> packed;         // [T * k, d]
  };
  static Views LayOut(BufferLayout& memory, const ExchangeShape& shape, int n_ranks);
  GatheredExperts(Backend& backend, Communicator& ranks, const ExchangeShape& shape,
                  LaidOutBuffer<Views> memory);

  Status Run(const ExpertWork& work) override;
  std::int64_t bytes() const override { return memory_.bytes(); }

 private:
  // All tokens, ordered by the rank that has them.
  struct Tokens {
    Matrix<const Bf16> x;
    Routing routing;
    Matrix<Bf16> rows;
  };
  Result<Tokens> GatherTokens(const ExpertWork& work, std::int64_t n_all, std::int64_t first);

  Backend& backend_;
  Communicator& ranks_;
  ExchangeShape shape_;
  LaidOutBuffer<Views> memory_;
  const Views& views_;
  std::vector<std::span<std::byte>> pieces_;  // pieces to gather
};

}  // namespace fathom::experts
