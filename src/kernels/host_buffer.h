// Host memory for backends that compute on the CPU.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/backend.h"

namespace fathom {

// A Buffer of `bytes` (>= 0) zeros, aligned to a page; large ones lie in huge pages where the
// kernel gives them (PageMemory). Pages take memory when they are first touched: a cache sized for
// the longest context costs what is used of it. Fails with kOutOfMemory.
Result<std::unique_ptr<Buffer>> AllocateHostBuffer(std::int64_t bytes);

}  // namespace fathom
