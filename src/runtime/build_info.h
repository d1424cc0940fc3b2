// BuildInfo: identifies the sources and the tools of this build.
#pragma once

#include <string_view>

namespace fathom::runtime {

struct BuildInfo {
  std::string_view version;
  std::string_view commit;  // "unknown" outside a git checkout; a final "+": changed since
  std::string_view compiler;
  std::string_view build_type;
};

BuildInfo GetBuildInfo();

}  // namespace fathom::runtime
