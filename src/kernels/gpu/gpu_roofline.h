// GpuRooflineProbe: the RooflineProbe of GPUs.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/gpu/driver.h"
#include "kernels/roofline.h"

namespace fathom::kernels {

// Measures by the device's clock. The driver must outlive the probe; the device chooses its page
// sizes. Errors: no memory of that size; as MakeTimer.
Result<std::unique_ptr<RooflineProbe>> MakeGpuRooflineProbe(GpuDriver& driver,
                                                            const RooflineOptions& options);

}  // namespace fathom::kernels
