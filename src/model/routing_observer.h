// RoutingObserver: reports the experts of a step, to measure how much a step reads.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "base/tensor.h"
#include "kernels/backend.h"

namespace fathom::model {

// Called once per layer of a step, in their order, with the experts of its tokens: ids [t, experts
// per token], ascending in every row. The view is valid during the call.
using RoutingObserver = std::function<void(Matrix<const std::int32_t> ids)>;

// Calls the observer with ids in memory of the backend; does nothing if the observer is empty.
// Errors: as Backend::Synchronize.
Status ObserveRouting(Backend& backend, Matrix<const std::int32_t> ids,
                      const RoutingObserver& observer);

}  // namespace fathom::model
