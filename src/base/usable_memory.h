// UsableMemory: how much memory this process may use without swapping and without being killed.
//
//   room of the machine           = MemAvailable
//   room of a memory cgroup       = min(memory.max, memory.high) - (memory.current - file pages)
//   usable = min of room - reserve over the machine, the cgroups of this process and their
//   ancestors
//
// The reserve of the machine is max(1 GiB, 5 % of its room): other programs run there. The reserve
// of a cgroup is max(256 MiB, 5 % of its room), because a service is mostly alone in it. Neither is
// more than half of the room.
//
// MemAvailable counts pages of files that the system can drop as available. So the same pages are
// subtracted from memory.current here; otherwise a container that has once read a large file would
// have no room left. Version 1 of cgroups has memory.limit_in_bytes and memory.usage_in_bytes
// instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace fathom {

struct UsableMemory {
  std::int64_t room = 0;             // bytes of the machine or the cgroup that decided
  std::int64_t reserve = 0;          // bytes for all other programs there
  std::string limited_by;            // the file with the number: "/proc/meminfo", or a cgroup's
  std::int64_t machine_reserve = 0;  // bytes; 0: the machine does not report its available memory
  // Files whose content is not a number; they were skipped, and the messages say so.
  std::vector<std::string> warnings;

  std::int64_t usable() const { return room - reserve; }
};

// Returns the part of a machine's `room` that is left to other programs.
std::int64_t MemoryReserve(std::int64_t room);

// Reads /proc and /sys/fs/cgroup below `root`. Error kNotFound: neither contains a number.
Result<UsableMemory> FindUsableMemory(const std::filesystem::path& root = "/");

}  // namespace fathom
