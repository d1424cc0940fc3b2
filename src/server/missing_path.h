// The error of a path at which there is nothing.
#pragma once

#include <span>
#include <string_view>

#include "api/common/api_error.h"

namespace fathom {

// Returns a 404 that says what a client of other servers should know: that this kind of model has
// no such endpoint, that the base URL has /v1 twice, or the path that was probably meant.
// `paths`: the paths that the client may ask for.
ApiError NoSuchPath(std::string_view path, std::span<const std::string_view> paths);

}  // namespace fathom
