// The limits of launches, within which every device can run them.
#pragma once

#include <stdint.h>

namespace fathom::kernels {

inline constexpr int kMaxBlockThreads = 256;
inline constexpr int kGroupThreads = 16;  // threads of a wave that sum together; each has a lane
inline constexpr int64_t kMaxSharedBytes = int64_t{48} << 10;  // per block, dynamic or not

}  // namespace fathom::kernels
