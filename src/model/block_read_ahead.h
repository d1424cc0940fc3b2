// BlockReadAhead: requests from disk, early, the weights of a block that every token reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom::model {

// Pages that are touched one after the other are read from disk in small pieces; a request for all
// of them is not. One thread at a time.
class BlockReadAhead {
 public:
  BlockReadAhead() = default;
  // For the first n_layers layers of a mapped checkpoint, which must outlive this object.
  BlockReadAhead(const Checkpoint& checkpoint, std::int64_t n_layers);

  // Requests the bytes of a layer, the first time it is called for that layer.
  void Request(std::int64_t layer);

 private:
  std::vector<std::vector<std::span<const std::byte>>> layers_;  // empty after the request
};

}  // namespace fathom::model
