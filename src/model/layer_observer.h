// LayerObserver: reports which layer of a step begins, for measurements by layer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace fathom::model {

// Called on the thread of the step. Missing: the following work belongs to no layer.
using LayerObserver = std::function<void(std::optional<std::int64_t> layer)>;

}  // namespace fathom::model
