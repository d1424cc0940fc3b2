// Where the embedded model is.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace fathom {

// `chosen` (from --model or FATHOM_MODEL) if it is not empty; else the embedded model, found from
// the running binary. Errors: there is no such directory; what is missing in it is for the loader
// to say.
Result<std::filesystem::path> FindModel(const std::filesystem::path& chosen);

// The embedded model of a binary at `binary`: <prefix>/share/fathom/models/fairy of an installed
// <prefix>/bin/fathom, or models/fairy in the directory of the binary or the nearest one above it
// (a build tree lies inside the project). The error says where it was looked for.
Result<std::filesystem::path> FindEmbeddedModel(const std::filesystem::path& binary);

}  // namespace fathom
