// The bytes that a launch reads and writes, for profiles.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/gpu/driver.h"

namespace fathom {

struct KernelBytes {
  std::optional<double> bytes;  // missing: not known for this kernel, or the device failed
  bool has_waited = false;      // memory of the device was read, after the work so far
};

// Counts every byte once: weights however many rows share them, an expert's if a row chooses it;
// but cached rows once per query that sees them, as in measure/bench/costs.h. `arguments` is the
// struct of the kernel.
KernelBytes BytesOfKernel(GpuDriver& driver, GpuKernel kernel, const GpuGrid& grid,
                          const std::byte* arguments);

}  // namespace fathom
