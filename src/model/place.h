// Which position of which sequence a row of a batch is.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/layer_cache.h"

namespace fathom {

struct Place {
  std::int32_t sequence = 0;
  std::int32_t position = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

inline Place PlaceOf(const BatchView& batch, std::int64_t row) {
  return {batch.SegmentOf(row).sequence, batch.positions[static_cast<std::size_t>(row)]};
}

inline void ListPlaces(const BatchView& batch, std::vector<Place>& places) {
  places.clear();
  for (std::int64_t row = 0; row < batch.n_tokens(); ++row) {
    places.push_back(PlaceOf(batch, row));
  }
}

}  // namespace fathom
