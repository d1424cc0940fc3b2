// UsableMemory: how much memory this process may take without swapping and without being killed.
//
//   room   = min(MemAvailable, over all memory cgroups of this process and their ancestors
//                min(memory.max, memory.high) - (memory.current - file pages))
//   usable = room - max(1 GiB, 5 % of room), but at least half of room
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
  std::int64_t room = 0;     // bytes
  std::int64_t reserve = 0;  // for everything else on this machine
  std::string limited_by;  // the file with the number that decided: "/proc/meminfo", or a cgroup's
  // Files that said something else than a number; they were left out, and the messages say so.
  std::vector<std::string> warnings;

  std::int64_t usable() const { return room - reserve; }
};

// The part of `room` that is left to others.
std::int64_t MemoryReserve(std::int64_t room);

// Reads /proc and /sys/fs/cgroup below `root`. Error kNotFound: neither says a number.
Result<UsableMemory> FindUsableMemory(const std::filesystem::path& root = "/");

}  // namespace fathom
