// Finds the control groups of this process, whose limits apply to it in addition to the machine's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;  // 1 or 2: decides the names of its files
};

// Returns the folders where the groups of this process and all groups above them may have files of
// a controller ("cpu", "memory"), below `root`. A container may not see the upper folders of its
// path; folders that do not exist are returned, too.
std::vector<ControlGroup> FindControlGroups(std::string_view controller,
                                            const std::filesystem::path& root = "/");

// Returns the first line of a file; nullopt: no file, or an empty one.
std::optional<std::string> ReadFirstLine(const std::filesystem::path& path);

}  // namespace fathom
