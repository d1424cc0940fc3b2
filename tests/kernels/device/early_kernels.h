// Arguments of the kernel that starts before earlier ones have ended (hopper_early.cu).
#pragma once

#include <stdint.h>

namespace fathom::testing {

// How a kernel waits for earlier ones, and lets the next one begin.
enum class EarlyOrder : int32_t {
  kNoWait,          // for a launch in order
  kStartsNext,      // lets the next kernel begin, then waits
  kWaits,           // waits, then lets the next kernel begin
  kOneThreadWaits,  // and then meets the others
  // Wrong.
  kOneThreadAlone,      // waits, and the others do not meet it
  kOneBlockWaits,       // and the others do not
  kOneBlockTells,       // the others by `flag` that it has waited
  kNeverWaits,          // lets the next kernel begin
  kNeitherStartsWaits,  // nor lets the next kernel begin
  kWritesFirst,         // then waits
};

// out[i] = 3 in[n - 1 - i] + early[i] + copied[i] of int32 numbers, n threads in all. `early` and
// `copied`, by a copy that runs beside the threads, are read before the wait. EarlyClusterStep: in
// clusters, whose blocks meet before the wait, too.
struct EarlyStepArguments {
  EarlyOrder order = EarlyOrder::kNoWait;
  const int32_t* in = nullptr;
  const int32_t* early = nullptr;
  const int32_t* copied = nullptr;
  int32_t* out = nullptr;
  uint32_t* flag = nullptr;  // of kOneBlockTells: 0
};
inline constexpr int kEarlyThreads = 64;
inline constexpr int kEarlyCluster = 3;
inline constexpr int64_t kEarlyStepShared = 128 + 4 * kEarlyThreads;

}  // namespace fathom::testing
