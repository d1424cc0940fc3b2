// Which backend runs the model, and on which processors.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "runtime/options.h"

namespace fathom {

// The instruction set asked for, or the best of this machine.
Result<Isa> ChooseIsa(const RunOptions& run);

// The processor of each thread, the first one that of the thread that runs the model; empty if
// threads are not to be bound. Error: more threads are to be bound than there are cores, or a
// processor was named that this process may not use.
Result<std::vector<int>> ChooseProcessors(const RunOptions& run);

// Makes the backend asked for, with the threads and the instruction set asked for. Errors: those of
// MakeBackend.
Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run,
                                               std::span<const int> processors,
                                               const RuntimeEvents& events);

}  // namespace fathom
