// The output of --version.
#pragma once

#include <string>

namespace fathom::cli {

// Returns version and commit, compiler, instruction sets that were compiled, instruction sets that
// are present, and backends; without a newline at the end.
std::string VersionText();

}  // namespace fathom::cli
