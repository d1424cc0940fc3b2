// Loads the communicator of MPI from a module: the program itself needs no MPI.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"

namespace fathom::comm {

// Exported by the module as fathom_make_mpi: starts MPI and returns the communicator of all ranks,
// or nullptr and the reason.
using MakeMpiFunction = Communicator* (*)(const AbortFlag* abort_flag, std::string* error);
inline constexpr const char* kMakeMpiName = "fathom_make_mpi";

// Opens fathom_mpi.so beside this program, or in its ../lib/fathom. Called once, by the thread that
// will use the communicator. `abort_flag` must outlive the communicator. Errors: no module (this
// build has no MPI), a module of another build, or MPI does not start. Destroying the communicator
// after a failure makes MPI end all ranks.
Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(const AbortFlag& abort_flag);

}  // namespace fathom::comm
