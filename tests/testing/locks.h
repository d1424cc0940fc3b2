// What this process may lock in memory, and has.
#pragma once

#include <cstdint>

namespace fathom::testing {

inline constexpr const char* kNoLocks = "this system lets a process lock too little memory";

// Whether so much more can be locked now.
bool MayLock(std::int64_t bytes);
// From now on all threads may lock no more, whoever runs the process: for one that ends soon.
// False: the system does not allow that.
bool LimitLocks(std::int64_t bytes);
// Kilobytes that are locked.
std::int64_t LockedKilobytes();

}  // namespace fathom::testing
