// Who is told which experts ran: measurements need to know what a step has read.
#pragma once

#include <cstdint>
#include <functional>

#include "base/tensor.h"

namespace fathom {

// Called once per layer of a step, in their order, with the experts of its tokens: ids [t, experts
// per token], ascending in every row. The view is valid during the call.
using RoutingObserver = std::function<void(Matrix<const std::int32_t> ids)>;

}  // namespace fathom
