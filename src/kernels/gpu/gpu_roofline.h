// The RooflineProbe of GPUs.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/roofline.h"

namespace fathom {

// Measures by the device's clock. The driver must outlive the probe; page sizes are the device's
// own business. Errors: no memory of that size, and those of MakeTimer.
Result<std::unique_ptr<RooflineProbe>> MakeGpuRooflineProbe(GpuDriver& driver,
                                                            const RooflineOptions& options);

}  // namespace fathom
