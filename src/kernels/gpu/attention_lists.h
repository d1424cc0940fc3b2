// The memory of AttentionLists.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/device/attention.h"

namespace fathom::kernels::gpu {

struct AttentionListShape {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t n_blocks = 0;  // blocks of slots of a row
};

// Returns the number of blocks that a list of n_slots slots fills.
std::int64_t AttentionBlocks(std::int64_t n_slots);

// Returns the bytes of a row, and of rows together with what they share.
std::int64_t AttentionRowBytes(const AttentionListShape& shape);
std::int64_t AttentionListBytes(const AttentionListShape& shape, std::int64_t rows);

// Returns how many rows fit into `bytes`; at most 0 if none does.
std::int64_t AttentionRowsIn(std::int64_t bytes, const AttentionListShape& shape);

// Lays out the lists of `rows` rows from `memory` on, which is aligned to 16 bytes.
AttentionLists LayOutAttentionLists(std::byte* memory, const AttentionListShape& shape,
                                    std::int64_t rows);

}  // namespace fathom::kernels::gpu
