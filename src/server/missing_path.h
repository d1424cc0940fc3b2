// Makes the error for an unknown path.
#pragma once

#include <span>
#include <string_view>

#include "api/common/api_error.h"

namespace fathom {

// Returns a 404 with advice for clients of other servers: this kind of model has no such endpoint,
// the base URL has /v1 twice, or the path that was probably meant. `paths`: the paths that the
// client may use.
ApiError NoSuchPath(std::string_view path, std::span<const std::string_view> paths);

}  // namespace fathom
