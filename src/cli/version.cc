#include "cli/version.h"

#include <fmt/format.h>

#include "cli/build_info.h"

namespace fathom::cli {

std::string VersionText() {
  const BuildInfo build = GetBuildInfo();
  return fmt::format(
      "fathom {} (commit {})\n"
      "compiler: {}, {}\n",
      build.version, build.commit, build.compiler, build.build_type);
}

}  // namespace fathom::cli
