// BlockReadAhead: asks the disk for what a layer reads while the layer before it runs.
//
// Only what every token reads, once per layer: pages that are touched one after the other come from
// disk in small pieces, and a disk is fast only if much is asked for at once. Routed experts are
// asked for when they have been chosen (ExpertAdmission).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

// Views of the checkpoint, which must outlive it. One thread at a time.
class BlockReadAhead {
 public:
  BlockReadAhead() = default;
  BlockReadAhead(const Checkpoint& checkpoint, std::int64_t n_layers);

  // Asks for layer `i`, or for what follows the last layer if i is n_layers; the first time only.
  void Ask(std::int64_t i);

 private:
  // Empty once asked for.
  std::vector<std::vector<std::span<const std::byte>>> blocks_;
};

}  // namespace fathom
