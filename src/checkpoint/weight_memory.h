// Where the weights of an open checkpoint lie, and when they are read.
//
// Without any of this they are pages of the mapped files, read from disk when they are first used
// and dropped by the system when it needs memory for something else.
#ifndef FATHOM_CHECKPOINT_WEIGHT_MEMORY_H_
#define FATHOM_CHECKPOINT_WEIGHT_MEMORY_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_team.h"
#include "checkpoint/safetensors.h"

namespace fathom {

struct WeightMemory {
  bool huge_pages = false;  // copy them into huge pages and release the files
  bool preload = false;     // read all of them now
  bool lock = false;        // the same, and they stay in memory

  bool Any() const { return huge_pages || preload || lock; }
};

// Does what is asked for, with all threads of the team. `progress` gets the share done from the
// calling thread; may be empty. `warnings` is added to if the kernel gave no huge pages. Views into
// the checkpoint are invalid afterwards if huge_pages. Errors, before anything is read: the memory
// that is available is less than the weights need, or the system refuses to lock as much.
Status HoldWeights(Checkpoint& checkpoint, const WeightMemory& memory, ThreadTeam& team,
                   const std::function<void(double)>& progress, std::vector<std::string>& warnings);

// Bytes that lie somewhere.
using MemoryPieces = std::vector<std::span<const std::byte>>;

// Does what is asked for with these pieces of the checkpoint alone, where they are: a rank with its
// own. There are no huge pages for them. Pages of the rest are from now on not mapped just because
// they lie beside others. Errors as of HoldWeights.
Status HoldPieces(const Checkpoint& checkpoint, const MemoryPieces& pieces,
                  const WeightMemory& memory, ThreadTeam& team,
                  const std::function<void(double)>& progress);

}  // namespace fathom

#endif  // FATHOM_CHECKPOINT_WEIGHT_MEMORY_H_
