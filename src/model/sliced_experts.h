// SlicedExperts: the fused exchange of ranks that all have the same tokens.
//
// Every rank is the owner of a slice of them. No activation travels; a rank computes its experts
// for all tokens, sends each row to the owner of its token while it computes the next, adds up its
// slice and gives the sums to all.
#ifndef FATHOM_MODEL_SLICED_EXPERTS_H_
#define FATHOM_MODEL_SLICED_EXPERTS_H_

#include <memory>

#include "kernels/carved.h"
#include "model/expert_exchange.h"
#include "model/expert_flow.h"

namespace fathom {

class SlicedExperts : public ExpertExchange {
 public:
  static Result<std::unique_ptr<ExpertExchange>> Create(Backend& backend, Communicator& ranks,
                                                        const ExchangeShape& shape);
  Status Run(const ExpertWork& work) override;
  std::int64_t bytes() const override { return memory_.bytes(); }

 private:
  struct Views {
    Matrix<std::int32_t> homes;  // [t, k]
    Matrix<std::int32_t> ids;    // [t, k]: of the chunk that is computed
    Matrix<Bf16> sent;           // [t * k, d]
    Matrix<Bf16> received;       // [slice * k, d]
  };
  SlicedExperts(Backend& backend, Communicator& ranks, const ExchangeShape& shape,
                Carved<Views> memory);
  static Views Carve(Carver& carver, const ExchangeShape& shape, int n_ranks);
  Piece SliceOf(std::int64_t n_tokens, int rank) const {
    const std::int64_t first = n_tokens * rank / ranks_.size();
    return {first, n_tokens * (rank + 1) / ranks_.size() - first};
  }
  Status Compute(const ExpertWork& work, Matrix<const std::int32_t> homes, int n_chunks);
  Status ShareSums(Matrix<Bf16> y);

  Backend& backend_;
  Communicator& ranks_;
  ExchangeShape shape_;
  Carved<Views> memory_;
  const Views& views_;
  Outbox outbox_;
  RowSender sender_;
  RowReceiver receiver_;
};

}  // namespace fathom

#endif  // FATHOM_MODEL_SLICED_EXPERTS_H_
