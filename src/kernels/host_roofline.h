// HostRooflineProbe: the RooflineProbe of backends that run on the processors of this machine.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/cpu/isa.h"
#include "kernels/roofline.h"

namespace fathom::kernels {

// Measures with the loops of `isa` (kScalar: plain loops, as the reference backend) on n_threads >=
// 1 threads of its own, the calling thread among them, each of which reads a contiguous part.
// `processors`: as for ThreadTeam. Errors: no memory of that size.
Result<std::unique_ptr<RooflineProbe>> MakeHostRooflineProbe(Isa isa, int n_threads,
                                                             std::span<const int> processors,
                                                             const RooflineOptions& options);

}  // namespace fathom::kernels
