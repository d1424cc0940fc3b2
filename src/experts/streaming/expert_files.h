// ExpertFiles: the places of the weights of each routed expert in the shards of a checkpoint, and
// their layout in a slot of memory that is filled from there.
//
//   shard   ......|w1 w2 w3 weights|..........|w1 w2 w3 scales|....    any order, any shards
//   blocks     [       |       |       ]     [       |       ]         multiples of 4096
//   slot       [       |       |       ][       |       ]              one range after the other
//
// Tensors that touch are one range; a range is widened to whole blocks, as direct reads need them.
// An address in a slot is an offset in the file modulo 4096: the kernels see the alignment that the
// weights have in the mapped file, and read the slot in place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "kernels/weight_format.h"

namespace fathom::experts {

// Blocks of a shard that are read into consecutive memory.
struct FileRange {
  std::size_t file = 0;
  std::int64_t offset = 0;    // a multiple of kReadBlockBytes, as is `bytes`
  std::int64_t bytes = 0;     // the last block may extend past the end of the file
  std::int64_t n_needed = 0;  // bytes that must exist
  std::int64_t in_slot = 0;   // offset of the first byte in the slot
};

// Constant after Create: any thread may read it.
class ExpertFiles {
 public:
  // `blocks`: the experts of each block, all of the same number, bound to the mapped checkpoint.
  // Weights that are not in the files of the checkpoint stay where they are. Error kUnsupported: an
  // expert in more than six ranges.
  static Result<ExpertFiles> Create(const Checkpoint& checkpoint,
                                    std::span<const std::span<const ExpertWeights>> blocks);

  ExpertFiles() = default;

  // Keys: block * n_experts + expert.
  std::size_t n_keys() const { return experts_.size(); }
  std::span<const FileRange> Ranges(std::size_t key) const { return experts_[key].ranges(); }
  // Returns the bytes that are read from disk for an expert.
  std::int64_t SizeInBytes(std::size_t key) const;
  // Returns the memory of one slot, enough for any expert; a multiple of kReadBlockBytes.
  std::int64_t slot_bytes() const { return slot_bytes_; }
  // Returns the expert with its weights in a slot that begins at `slot`.
  ExpertWeights InSlot(std::size_t key, ExpertWeights expert, const std::byte* slot) const;

 private:
  static constexpr std::size_t kMostRanges = 6;
  static constexpr std::int64_t kElsewhere = -1;  // not in the files

  struct Expert {
    std::array<FileRange, kMostRanges> all;
    std::size_t n_ranges = 0;
    // Offsets in the slot, in the order of DataPieces (experts/balance/expert_transfer.h).
    std::array<std::int64_t, 6> tensors = {};

    std::span<const FileRange> ranges() const { return std::span(all).first(n_ranges); }
  };
  static Result<Expert> List(const Checkpoint& checkpoint, const ExpertWeights& weights);

  std::vector<Expert> experts_;
  std::int64_t slot_bytes_ = 0;
};

}  // namespace fathom::experts
