#include "base/control_groups.h"

#include <fmt/format.h>

#include <fstream>

namespace fathom {
namespace {

namespace fs = std::filesystem;

// Adds `group` ("/a/b") and the groups above it. Their visible part is mounted at `mount`.
void AddGroups(const fs::path& mount, std::string_view group, int version,
               std::vector<ControlGroup>& groups) {
  fs::path folder = mount;
  groups.push_back({folder, version});
  for (const fs::path& name : fs::path(group).relative_path()) {
    if (name == "..") continue;  // the group is outside the container's part
    folder /= name;
    groups.push_back({folder, version});
  }
}

}  // namespace

std::vector<ControlGroup> FindControlGroups(std::string_view controller, const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  // Lines are NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      AddGroups(mount, group, 2, groups);
      AddGroups(mount / "unified", group, 2, groups);
    } else if (fmt::format(",{},", controllers).find(fmt::format(",{},", controller)) !=
               std::string::npos) {
      AddGroups(mount / controller, group, 1, groups);
      if (controllers != controller) AddGroups(mount / controllers, group, 1, groups);
    }
  }
  return groups;
}

std::optional<std::string> ReadFirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? std::optional(line) : std::nullopt;
}

}  // namespace fathom
