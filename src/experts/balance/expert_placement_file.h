// The file of a placement of experts, with which a run begins where another ended:
//
//   {"format": "fathom experts 1",
//    "model": "5f0c...",                    // fingerprint of the checkpoint
//    "routed_experts": 256, "physical_experts": 288, "expert_ranks": 8,
//    "blocks": 44,                          // layers and the draft block
//    "placement": {"0": [17, 0, ...],       // per block: the logical expert of each physical one
//                  "1": [...], ...}}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "experts/balance/expert_placement.h"

namespace fathom::experts {

// The checkpoint and counts that a placement belongs to.
struct PlacementOwner {
  std::string model;  // hexadecimal digits
  std::int64_t n_blocks = 0;
  ExpertCounts counts;
};

std::string PlacementText(const BlockPlacements& placements, const PlacementOwner& owner);

// Error: not the text of a placement, or a placement for another model or other counts; names
// `file` and the field.
Result<BlockPlacements> ParsePlacement(std::string_view text, std::string_view file,
                                       const PlacementOwner& owner);

}  // namespace fathom::experts
