// Host memory for backends that compute on the CPU.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/backend.h"

namespace fathom::kernels {

// Allocates a Buffer of `bytes` (>= 0) zeros, aligned to a page; large buffers use huge pages where
// the kernel provides them (PageMemory). Pages take memory when they are first touched: a cache
// sized for the longest context costs only the memory it uses. Error: kOutOfMemory.
Result<std::unique_ptr<Buffer>> AllocateHostBuffer(std::int64_t bytes);

}  // namespace fathom::kernels
