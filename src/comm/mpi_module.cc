#include "comm/mpi_module.h"

#include "base/module_file.h"

namespace fathom::comm {

Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(const AbortFlag& abort_flag) {
  // Open MPI opens parts of itself that look for its symbols.
  const Result<void*> function = OpenModule({.name = "fathom_mpi.so",
                                             .function = kMakeMpiName,
                                             .interface = FATHOM_MODULE_INTERFACE,
                                             .provides = "MPI",
                                             .needs = "libopenmpi-dev",
                                             .shows_symbols = true});
  if (!function) return Unexpected(function.error());
  std::string error;
  std::unique_ptr<Communicator> ranks(
      reinterpret_cast<MakeMpiFunction>(*function)(&abort_flag, &error));
  if (!ranks) return MakeError(ErrorCode::kUnavailable, "{}", error);
  return ranks;
}

}  // namespace fathom::comm
