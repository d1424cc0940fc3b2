// WeightMemory: selects the memory for the weights of an open checkpoint, or of the shard of a
// rank.
//
// By default the weights are pages of the mapped files, which the system reads from disk at first
// use, and drops when it needs memory for other purposes.
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

namespace fathom::checkpoint {

struct WeightMemory {
  bool huge_pages = false;  // copy the weights into huge pages
  bool preload = false;     // read all weights now
  bool lock = false;        // read all weights now and keep them in memory

  bool Any() const { return huge_pages || preload || lock; }
};

// Pieces of memory that hold weights.
using MemoryPieces = std::vector<std::span<const std::byte>>;

// The most gaps between pieces that become separate mappings. A process has at most 65,530 mappings
// by default (vm.max_map_count), allocators need some of them, and a gap takes two.
inline constexpr std::size_t kMostGaps = 16'384;

// Frees the pages of the files that contain none of these pieces, and keeps them unmapped when
// pages beside them are read: for a rank with its own shard of a model. Beyond `most` gaps between
// the pieces, pages in the smaller gaps may be mapped again.
void UnmapUnusedPages(const Checkpoint& checkpoint, MemoryPieces pieces,
                      std::size_t most = kMostGaps);

// Checks that the available memory suffices if `memory` asks to hold the pieces.
Status CheckRoom(const Checkpoint& checkpoint, const MemoryPieces& pieces,
                 const WeightMemory& memory);

// Copies, reads or locks these pieces as `memory` says, with all threads of the team. `progress`
// receives the completed share on the calling thread; may be empty. With huge_pages, `pieces`
// become parts of the returned memory, one after another in their order, each at a multiple of 64
// bytes; the pages of the originals are released meanwhile, so pieces outside files lose their
// bytes. Appends to `warnings` if the kernel provided no huge pages. Without huge_pages the pieces
// keep their place, and no memory is returned. Errors, before anything is read: the system refuses
// the memory, or refuses to lock it.
Result<PageMemory> HoldWeights(MemoryPieces& pieces, const WeightMemory& memory, ThreadTeam& team,
                               const std::function<void(double)>& progress,
                               std::vector<std::string>& warnings);

}  // namespace fathom::checkpoint
