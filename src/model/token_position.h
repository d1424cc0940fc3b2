// TokenPosition: the sequence and position of a row of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/layer_cache.h"

namespace fathom::model {

struct TokenPosition {
  std::int32_t sequence = 0;
  std::int32_t position = 0;
  friend bool operator==(const TokenPosition&, const TokenPosition&) = default;
};

inline TokenPosition RowPosition(const BatchView& batch, std::int64_t row) {
  return {batch.FindSegment(row).sequence, batch.positions[static_cast<std::size_t>(row)]};
}

inline void ListPositions(const BatchView& batch, std::vector<TokenPosition>& positions) {
  positions.clear();
  for (std::int64_t row = 0; row < batch.n_tokens(); ++row) {
    positions.push_back(RowPosition(batch, row));
  }
}

}  // namespace fathom::model
