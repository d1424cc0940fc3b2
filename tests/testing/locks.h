// The memory that this process may lock, and has locked.
#pragma once

#include <cstdint>

namespace fathom::testing {

inline constexpr const char* kNoLocks = "this system lets a process lock too little memory";

// Whether so much more can be locked now.
bool MayLock(std::int64_t bytes);
// Forbids all threads to lock more memory, for any user; for a process that ends soon. False: the
// system does not allow that.
bool LimitLocks(std::int64_t bytes);
// Kilobytes that are locked.
std::int64_t LockedKilobytes();

}  // namespace fathom::testing
