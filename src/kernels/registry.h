// Makes backends by name.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace fathom {

// Makes the backend for this machine's processor with n_threads >= 1 threads (including the
// caller's), bound to the n_threads `processors` if these are given (ThreadTeam). `isa` forces an
// instruction set; by default the widest present is used. kScalar is the reference backend, on one
// thread. Errors: the machine does not have `isa` (the message names what it has), or n_threads <
// 1.
Result<std::unique_ptr<Backend>> MakeCpuBackend(std::optional<Isa> isa, int n_threads,
                                                std::span<const int> processors = {});

}  // namespace fathom
