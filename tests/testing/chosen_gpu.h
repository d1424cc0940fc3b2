// The GPU that FATHOM_TEST_GPU names, as "cuda:0" or "hip:1", for tests on a device.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernels/gpu/driver.h"

namespace fathom::testing {

// None: the variable is not set, and there are no tests on a device.
std::optional<std::string> ChosenGpu();

// Opens it, with the settings FATHOM_GPU_SYNC and FATHOM_GPU_GRAPHS of the environment, as the
// program does. Errors: a name of another form, and the errors of OpenGpuModule and
// GpuModule::Open.
Result<std::unique_ptr<GpuDriver>> OpenChosenGpu();

// Opens it once for all calls of the process, since opening takes some tenths of a second: the
// drivers that are returned are one. One at a time is used. Errors: as OpenChosenGpu.
Result<std::unique_ptr<GpuDriver>> ShareChosenGpu();

}  // namespace fathom::testing
