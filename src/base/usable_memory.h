// UsableMemory: how much memory this process may take without swapping and without being killed.
//
//   room of the machine           = MemAvailable
//   room of a memory cgroup       = min(memory.max, memory.high) - (memory.current - file pages)
//   usable = min of room - reserve over the machine, the cgroups of this process and their
//   ancestors
//
// The reserve of the machine is max(1 GiB, 5 % of its room): other programs run there. That of a
// cgroup is max(256 MiB, 5 % of its room), as a service is mostly alone in it. Neither is more than
// half of the room.
//
// MemAvailable counts pages of files that the system can drop as available, so the same pages are
// taken out of memory.current here: else a container that has once read a large file would have no
// room left. Version 1 of cgroups has memory.limit_in_bytes and memory.usage_in_bytes instead.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace fathom {

struct UsableMemory {
  std::int64_t room = 0;             // bytes of the machine or the cgroup that decided
  std::int64_t reserve = 0;          // bytes for everything else there
  std::string limited_by;            // the file with its number: "/proc/meminfo", or a cgroup's
  std::int64_t machine_reserve = 0;  // bytes; 0: the machine does not say what is available
  // Files that said something else than a number; they were left out, and the messages say so.
  std::vector<std::string> warnings;

  std::int64_t usable() const { return room - reserve; }
};

// The part of a machine's `room` that is left to others.
std::int64_t MemoryReserve(std::int64_t room);

// Reads /proc and /sys/fs/cgroup below `root`. Error kNotFound: neither says a number.
Result<UsableMemory> FindUsableMemory(const std::filesystem::path& root = "/");

}  // namespace fathom
