#include "model/expert_layer.h"

namespace fathom::model {
namespace {

// Each row is computed on its own, and all rows are added in the order of their ids afterwards: the
// result does not depend on which experts arrive first, nor on how many arrive together.
struct RowsOfExperts {
  Backend& backend;
  Matrix<const Bf16> x;
  Matrix<float> weights;
  float swiglu_limit;
  Matrix<Bf16> rows;

  void operator()(const ExpertLease& lease) const {
    if (lease.is_empty()) return;
    backend.ExpertRows(x, {.ids = lease.ids, .weights = weights}, lease.experts, swiglu_limit,
                       rows);
  }
};

}  // namespace

Status RunExperts(Backend& backend, ExpertStore& store, std::int64_t block, Matrix<const Bf16> x,
                  const Routing& routing, float swiglu_limit, Matrix<Bf16> rows,
                  const std::function<Status()>& meanwhile) {
  const RowsOfExperts compute = {backend, x, routing.weights, swiglu_limit, rows};
  const Result<ExpertLease> lease = store.Acquire(block, routing.ids);
  if (!lease) return Unexpected(lease.error());
  compute(*lease);
  if (Status ran = meanwhile(); !ran) return ran;
  return store.Await([&compute](const ExpertLease& arrived) { compute(arrived); });
}

Status LocalExperts::Run(ForwardPass& /*pass*/, const ExpertInput& input) {
  if (Status ran = RunExperts(backend_, store_, input.block, input.x, input.routing, swiglu_limit_,
                              input.rows, input.shared);
      !ran) {
    return ran;
  }
  backend_.CombineExperts(input.rows, input.y, input.y);
  return {};
}

Status LocalExperts::ShareFailures(ForwardPass& pass) {
  const std::span<const SequenceFailure> failures = pass.failed.failures();
  if (!is_alone_ && !failures.empty()) return Unexpected(failures.front().error);
  return {};
}

}  // namespace fathom::model
