#include "base/module_file.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>

namespace fathom {
namespace {

Result<void*> OpenModuleAt(const std::filesystem::path& place, const ModuleFile& module) {
  void* const opened =
      ::dlopen(place.c_str(), RTLD_NOW | (module.shows_symbols ? RTLD_GLOBAL : RTLD_LOCAL));
  if (opened == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "{}: {}", place.string(), ::dlerror());
  }
  void* const function = ::dlsym(opened, module.function);
  if (function == nullptr) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected the function {}, found none",
                     place.string(), module.function);
  }
  const auto* const interface = static_cast<const char*>(::dlsym(opened, kModuleInterfaceName));
  if (interface == nullptr || interface != module.interface) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected the module of the same build as this program, found another",
                     place.string());
  }
  return function;
}

}  // namespace

Result<void*> OpenModule(const ModuleFile& module) {
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array places = {folder / module.name,
                             folder.parent_path() / "lib" / "fathom" / module.name};
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place, ignored)) return OpenModuleAt(place, module);
  }
  return MakeError(ErrorCode::kUnsupported,
                   "this build has no {}: there is no {} (build with {} installed)",
                   module.provides, places.front().string(), module.needs);
}

}  // namespace fathom
