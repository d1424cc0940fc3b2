#include "model/expert_layer.h"

namespace fathom {

Status RunExperts(Backend& backend, ExpertStore& store, std::int64_t block, Matrix<const Bf16> x,
                  const Routing& routing, float swiglu_limit, Matrix<Bf16> rows) {
  const Result<ExpertLease> lease = store.Acquire(block, routing.ids);
  if (!lease) return Unexpected(lease.error());
  backend.ExpertRows(x, routing, lease->experts, swiglu_limit, rows);
  return {};
}

Status LocalExperts::Run(const ExpertInput& input) {
  Status status =
      RunExperts(backend_, store_, input.block, input.x, input.routing, swiglu_limit_, input.rows);
  if (status) status = input.shared();
  if (status) backend_.CombineExperts(input.rows, input.y, input.y);
  return status;
}

}  // namespace fathom
