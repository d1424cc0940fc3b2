// Checks whether a request can ever be answered.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/request.h"

namespace fathom {

struct EngineLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_context = 0;
  std::int64_t most_positions = 0;  // positions for which there is cache memory
  std::int64_t cache_bytes = 0;
  bool knows_text = false;  // the bytes of tokens are known
};

// Errors name the field.
Status CheckRequest(const Request& request, const EngineLimits& limits);

}  // namespace fathom
