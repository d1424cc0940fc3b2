// Writes the OpenAPI document: the embedded file, with the parts that its operations have in common
// written out, and with the limits of this server.
#pragma once

#include <cstdint>
#include <string>

#include "api/common/generation_fields.h"

namespace fathom::server {

// Returns openapi.json with whole operations, the numeric sampling parameters
// (engine/sampling_fields.h) of every request that generates, and the token ids and the number of
// choices that the limits allow; the default is a DeepSeek-V4 checkpoint without options.
std::string OpenApiDocument(const RequestLimits& limits = {.vocab_size = 129280});

// Returns a regular expression for the decimal numbers from 0 to `last`, at least 0, written
// without leading zeros.
std::string NumbersUpTo(std::int64_t last);

}  // namespace fathom::server
