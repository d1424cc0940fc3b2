// The communicator of MPI, from a module: the program itself needs no MPI.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "comm/abort_flag.h"
#include "comm/communicator.h"

namespace fathom {

// What the module exports as fathom_make_mpi: starts MPI and returns the communicator of all ranks,
// or nullptr and what is wrong.
using MakeMpiFunction = Communicator* (*)(const AbortFlag* alarm, std::string* error);
inline constexpr const char* kMakeMpiName = "fathom_make_mpi";
// And a string beside it: the digest of the headers that it was built with.
inline constexpr const char* kMpiInterfaceName = "fathom_mpi_interface";

// Opens fathom_mpi.so beside this program, or in ../lib/fathom of it. Called once, by the thread
// that will use the communicator. `alarm` outlives it. Errors: no module (this build has no MPI),
// one of another build, or MPI does not start. When it goes after a failure, MPI ends all ranks.
Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(const AbortFlag& alarm);

}  // namespace fathom
