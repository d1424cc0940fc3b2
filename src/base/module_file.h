// Opens modules: parts of the program in files of their own, opened when they are needed, so that
// the program runs where the libraries they link to are not installed.
#pragma once

#include <string_view>

#include "base/result.h"

namespace fathom {

// A module and its required properties.
struct ModuleFile {
  const char* name;      // name of the file: "fathom_mpi.so"
  const char* function;  // function that the module exports with C linkage
  // The digest of the headers of the interface between program and module. The module exports the
  // digest with which it was built as the string kModuleInterfaceName.
  std::string_view interface;
  std::string_view provides;   // "MPI"
  std::string_view needs;      // what a build with this module needs: "libopenmpi-dev"
  bool shows_symbols = false;  // its symbols are visible to the libraries that it loads
};

inline constexpr const char* kModuleInterfaceName = "fathom_module_interface";

// Opens the module beside this program, or in its ../lib/fathom, and returns the address of its
// function. The module stays open. Errors: kUnsupported if there is no module or it cannot be
// loaded, kInvalidData if it belongs to another build.
Result<void*> OpenModule(const ModuleFile& module);

}  // namespace fathom
