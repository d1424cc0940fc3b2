// Writes the OpenAPI document with the limits of this server: the embedded file has the limits of a
// DeepSeek-V4 checkpoint without options.
#pragma once

#include <cstdint>
#include <string>

#include "api/common/generation_fields.h"

namespace fathom {

// Returns openapi.json with the numeric sampling parameters (engine/sampling_fields.h) of every
// request that generates.
std::string OpenApiDocument();
// Also includes the token ids and the number of choices that these limits allow.
std::string OpenApiDocument(const RequestLimits& limits);

// Returns a regular expression for the decimal numbers from 0 to `last`, at least 0, written
// without leading zeros.
std::string NumbersUpTo(std::int64_t last);

}  // namespace fathom
