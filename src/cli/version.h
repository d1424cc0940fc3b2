// What --version says.
#ifndef FATHOM_CLI_VERSION_H_
#define FATHOM_CLI_VERSION_H_

#include <string>

namespace fathom::cli {

// Version and commit, compiler, instruction sets that were compiled and those present, backends;
// without a newline at the end.
std::string VersionText();

}  // namespace fathom::cli

#endif  // FATHOM_CLI_VERSION_H_
