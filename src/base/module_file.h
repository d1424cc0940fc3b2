// Modules: parts of the program in files of their own, opened when they are needed, so that the
// program runs where what they link to is not installed.
#pragma once

#include <string_view>

#include "base/result.h"

namespace fathom {

// A module and what the program expects of it.
struct ModuleFile {
  const char* name;      // of the file: "fathom_mpi.so"
  const char* function;  // that the module exports in C's way
  // The digest of the headers of what passes between program and module; the module exports the one
  // it was built with as the string kModuleInterfaceName.
  std::string_view interface;
  std::string_view provides;   // "MPI"
  std::string_view needs;      // of a build with this module: "libopenmpi-dev"
  bool shows_symbols = false;  // to what it loads
};

inline constexpr const char* kModuleInterfaceName = "fathom_module_interface";

// Opens the module beside this program, or in its ../lib/fathom, and returns the address of its
// function. The module stays open. Errors: kUnsupported if there is no module or it cannot be
// loaded, kInvalidData if it is one of another build.
Result<void*> OpenModule(const ModuleFile& module);

}  // namespace fathom
