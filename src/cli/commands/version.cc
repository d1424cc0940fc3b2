#include "cli/commands/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "kernels/cpu/isa.h"
#include "runtime/build_info.h"

namespace fathom::cli {
namespace {

std::vector<std::string_view> Names(const std::vector<Isa>& isas) {
  std::vector<std::string_view> names;
  for (const Isa isa : isas) {
    names.push_back(Name(isa));
  }
  return names;
}

}  // namespace

std::string VersionText() {
  const BuildInfo build = GetBuildInfo();
  return fmt::format(
      "fathom {}, commit {}\n"
      "compiler: {}, {}\n"
      "instruction sets: compiled {}; present {}\n"
      "backends: cpu, reference; for GPUs see fathom devices",
      build.version, build.commit, build.compiler, build.build_type,
      fmt::join(Names({std::begin(kAllIsas), std::end(kAllIsas)}), " "),
      fmt::join(Names(AvailableIsas()), " "));
}

}  // namespace fathom::cli
