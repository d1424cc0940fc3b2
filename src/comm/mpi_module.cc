#include "comm/mpi_module.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace fathom {

Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(const AbortFlag& alarm) {
  constexpr const char* kFile = "fathom_mpi.so";
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array places = {folder / kFile, folder.parent_path() / "lib" / "fathom" / kFile};
  for (const std::filesystem::path& place : places) {
    if (!std::filesystem::exists(place, ignored)) continue;
    // Open MPI opens parts of itself that look for its symbols.
    void* const module = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      return MakeError(ErrorCode::kUnsupported, "{}: {}", place.string(), ::dlerror());
    }
    const auto make = reinterpret_cast<MakeMpiFunction>(::dlsym(module, kMakeMpiName));
    if (make == nullptr) {
      return MakeError(ErrorCode::kInvalidData, "{}: expected the function {}, found none",
                       place.string(), kMakeMpiName);
    }
    const auto* const interface = static_cast<const char*>(::dlsym(module, kMpiInterfaceName));
    if (interface == nullptr || std::string_view(interface) != FATHOM_MPI_INTERFACE) {
      return MakeError(ErrorCode::kInvalidData,
                       "{}: expected the module of the same build as this program, found another",
                       place.string());
    }
    std::string error;
    std::unique_ptr<Communicator> ranks(make(&alarm, &error));
    if (!ranks) return MakeError(ErrorCode::kUnavailable, "{}", error);
    return ranks;
  }
  return MakeError(ErrorCode::kUnsupported,
                   "this build has no MPI: there is no {} (build with libopenmpi-dev installed)",
                   places.front().string());
}

}  // namespace fathom
