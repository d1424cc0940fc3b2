// RoutingObserver: reports the experts of a step, for measurements of what a step reads.
#pragma once

#include <cstdint>
#include <functional>

#include "base/tensor.h"

namespace fathom {

// Called once per layer of a step, in their order, with the experts of its tokens: ids [t, experts
// per token], ascending in every row. The view is valid during the call.
using RoutingObserver = std::function<void(Matrix<const std::int32_t> ids)>;

}  // namespace fathom
