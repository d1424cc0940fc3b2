// Chooses the backend that runs the model, and the processors it uses.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "planning/options.h"

namespace fathom::runtime {

// Returns the instruction set of --cpu-isa, or the best one of this machine.
Result<Isa> ChooseIsa(const RunOptions& run);

// Returns the processor of each thread, beginning with the thread that runs the model; empty if
// threads are not bound. Error: more bound threads than cores, or a processor that this process may
// not use.
Result<std::vector<int>> ChooseProcessors(const RunOptions& run);

// Makes the backend that the options name, with their threads and instruction set. Errors: a device
// for a backend that has none to choose from; errors of MakeBackend and ChoosePaths.
Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run,
                                               std::span<const int> processors,
                                               const RuntimeEvents& events);

}  // namespace fathom::runtime
