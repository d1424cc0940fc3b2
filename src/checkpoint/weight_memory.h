// Where the weights of an open checkpoint lie, and when they are read: of all of it, or of the
// share that a rank has.
//
// Without any of this they are pages of the mapped files, read from disk when they are first used
// and dropped by the system when it needs memory for something else.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "checkpoint/safetensors.h"

namespace fathom {

struct WeightMemory {
  bool huge_pages = false;  // copy them into huge pages
  bool preload = false;     // read all of them now
  bool lock = false;        // the same, and they stay in memory

  bool Any() const { return huge_pages || preload || lock; }
};

// Bytes that lie somewhere.
using MemoryPieces = std::vector<std::span<const std::byte>>;

// Mappings that a process has at most are 65,530 unless the system is told otherwise
// (vm.max_map_count), and allocators need them too. A gap between pieces takes two.
inline constexpr std::size_t kMostGaps = 16'384;

// Pages of the files that hold none of these pieces are given back, and from now on not mapped just
// because they lie beside others: a rank with its own share of a model. Where there are more gaps
// between the pieces than `most`, those beside the smaller ones may be.
void UnmapUnusedPages(const Checkpoint& checkpoint, MemoryPieces pieces,
                      std::size_t most = kMostGaps);

// Error: they are to be held, and the memory that is available is less than they need.
Status CheckRoom(const Checkpoint& checkpoint, const MemoryPieces& pieces,
                 const WeightMemory& memory);

// Does what is asked for with these pieces of memory, with all threads of the team. `progress` gets
// the share done from the calling thread; may be empty. With huge_pages, `pieces` are afterwards
// those of the memory that is returned, one behind the other in their order, each at a multiple of
// 64 bytes; the pages of the originals are given back meanwhile, so that what is no file no longer
// has its bytes. `warnings` is added to if the kernel gave no huge pages. Otherwise the pieces stay
// where they are, and no memory is returned. Errors, before anything is read: the system does not
// give that memory, or refuses to lock as much.
Result<PageMemory> HoldWeights(MemoryPieces& pieces, const WeightMemory& memory, ThreadTeam& team,
                               const std::function<void(double)>& progress,
                               std::vector<std::string>& warnings);

}  // namespace fathom
