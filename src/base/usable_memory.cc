#include "base/usable_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/control_groups.h"
#include "base/pages.h"
#include "base/parse_text.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// The files of one version of cgroups.
struct CgroupFiles {
  std::array<std::string_view, 2> limits;   // the second may be empty
  std::string_view current;                 // includes pages of files
  std::array<std::string_view, 2> dropped;  // fields of memory.stat: pages of files
};

constexpr CgroupFiles kVersion2 = {.limits = {"memory.max", "memory.high"},
                                   .current = "memory.current",
                                   .dropped = {"inactive_file ", "active_file "}};
constexpr CgroupFiles kVersion1 = {.limits = {"memory.limit_in_bytes", ""},
                                   .current = "memory.usage_in_bytes",
                                   .dropped = {"total_inactive_file ", "total_active_file "}};

constexpr std::int64_t kLeastReserve = std::int64_t{1} << 30;
constexpr std::int64_t kLeastGroupReserve = std::int64_t{256} << 20;

std::int64_t ComputeReserve(std::int64_t room, std::int64_t least) {
  return std::min(std::max(least, room / 20), room / 2);
}

class RoomFinder {
 public:
  explicit RoomFinder(const fs::path& root) : root_(root) {}

  Result<UsableMemory> Find() {
    if (const std::optional<std::int64_t> available = AvailableMemory(root_)) {
      found_.machine_reserve = MemoryReserve(*available);
      Limit(*available, kLeastReserve, "/proc/meminfo");
    } else {
      Warn("/proc/meminfo: expected MemAvailable in kB, found none");
    }
    for (const ControlGroup& group : FindControlGroups("memory", root_)) {
      AddGroup(group.version == 2 ? kVersion2 : kVersion1, group.folder);
    }
    if (!known_) {
      return MakeError(ErrorCode::kNotFound,
                       "neither MemAvailable of /proc/meminfo nor a limit of a memory cgroup says "
                       "how much memory there is");
    }
    return std::move(found_);
  }

 private:
  void Warn(std::string message) { found_.warnings.push_back(std::move(message)); }

  // Returns the path without the root of a test.
  std::string Name(const fs::path& path) const {
    return fmt::format("/{}", path.lexically_relative(root_).string());
  }

  void Limit(std::int64_t room, std::int64_t least_reserve, std::string name) {
    room = std::max<std::int64_t>(room, 0);
    const std::int64_t reserve = ComputeReserve(room, least_reserve);
    if (known_ && room - reserve >= found_.usable()) return;
    known_ = true;
    found_.room = room;
    found_.reserve = reserve;
    found_.limited_by = std::move(name);
  }

  void AddGroup(const CgroupFiles& files, const fs::path& group) {
    for (const std::string_view name : files.limits) {
      if (name.empty()) continue;
      const std::optional<std::int64_t> limit = ReadBytes(group / name);
      if (limit) Limit(*limit - Used(files, group), kLeastGroupReserve, Name(group / name));
    }
  }

  // Returns the bytes of a group that cannot be dropped.
  std::int64_t Used(const CgroupFiles& files, const fs::path& group) {
    const std::optional<std::int64_t> current = ReadBytes(group / files.current);
    if (!current) {
      Warn(fmt::format("{}: expected a number, found none; counted as 0",
                       Name(group / files.current)));
      return 0;
    }
    std::int64_t dropped = 0;
    std::ifstream file(group / "memory.stat");
    for (std::string line; std::getline(file, line);) {
      for (const std::string_view name : files.dropped) {
        std::string_view text = line;
        if (!TakePrefix(text, name)) continue;
        dropped += std::clamp<std::int64_t>(ParseNumber<std::int64_t>(text).value_or(0), 0,
                                            *current - dropped);
      }
    }
    return *current - dropped;
  }

  // Returns nullopt if there is no such file, or no limit ("max").
  std::optional<std::int64_t> ReadBytes(const fs::path& path) {
    const std::optional<std::string> line = ReadFirstLine(path);
    if (!line || *line == "max") return std::nullopt;
    const std::optional<std::int64_t> bytes = ParseNumber<std::int64_t>(*line);
    if (bytes && *bytes >= 0) return bytes;
    Warn(fmt::format("{}: expected a number or max, found \"{}\"; left out", Name(path),
                     line->substr(0, 40)));
    return std::nullopt;
  }

  const fs::path& root_;
  UsableMemory found_;
  bool known_ = false;
};

}  // namespace

std::int64_t MemoryReserve(std::int64_t room) { return ComputeReserve(room, kLeastReserve); }

Result<UsableMemory> FindUsableMemory(const std::filesystem::path& root) {
  return RoomFinder(root).Find();
}

}  // namespace fathom
