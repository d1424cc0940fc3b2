// Reads the state of other processes in /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace fathom::testing {

// Processes whose parent is `parent`, ascending.
std::vector<pid_t> FindChildren(pid_t parent);

// Within 3 s: mpirun does not wait for those that it has ended, nor does everybody's init.
bool IsGoneSoon(pid_t process);

// Within 30 s: a file with this text in its path is in the memory of the process.
bool MapsSoon(pid_t process, std::string_view part_of_path);

// Bytes that the process has mapped, used or not.
std::int64_t AddressSpace(pid_t process);

}  // namespace fathom::testing
