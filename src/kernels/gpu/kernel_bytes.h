// Computes the bytes that a launch reads and writes, for profiles.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/gpu/driver.h"

namespace fathom::kernels {

struct KernelBytes {
  std::optional<double> bytes;  // missing: not known for this kernel, or the device failed
  bool has_waited = false;      // the device has been waited for, to read its memory
};

// Counts every byte once: weights once, however many rows share them; an expert's weights if a row
// chooses it; but cached rows once per query that sees them, as in measure/bench/costs.h.
// `arguments` is the struct of the kernel.
KernelBytes BytesOfKernel(GpuDriver& driver, GpuKernel kernel, const GpuGrid& grid,
                          const std::byte* arguments);

}  // namespace fathom::kernels
