#include "model/routing_observer.h"

#include <span>
#include <vector>

namespace fathom::model {

Status ObserveRouting(Backend& backend, Matrix<const std::int32_t> ids,
                      const RoutingObserver& observer) {
  if (!observer) return {};
  std::vector<std::int32_t> copy(static_cast<std::size_t>(ids.rows * ids.cols));
  backend.Download(std::as_writable_bytes(std::span(copy)), ids.data);
  if (Status done = backend.Synchronize(); !done) return done;
  observer({copy.data(), ids.rows, ids.cols});
  return {};
}

}  // namespace fathom::model
