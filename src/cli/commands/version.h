// The output of --version.
#pragma once

#include <string>

namespace fathom::cli {

// Version and commit, compiler, instruction sets that were compiled and those present, backends;
// without a newline at the end.
std::string VersionText();

}  // namespace fathom::cli
