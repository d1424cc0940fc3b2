// Who is told which experts ran: measurements need to know what a step has read.
#ifndef FATHOM_MODEL_ROUTING_OBSERVER_H_
#define FATHOM_MODEL_ROUTING_OBSERVER_H_

#include <cstdint>
#include <functional>

#include "base/tensor.h"

namespace fathom {

// Called once per layer of a step, in their order, with the experts of its tokens: ids [t, experts
// per token], ascending in every row. The view is valid during the call.
using RoutingObserver = std::function<void(Matrix<const std::int32_t> ids)>;

}  // namespace fathom

#endif  // FATHOM_MODEL_ROUTING_OBSERVER_H_
