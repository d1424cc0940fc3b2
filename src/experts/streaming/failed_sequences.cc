#include "experts/streaming/failed_sequences.h"

#include <algorithm>

namespace fathom {

void FailedSequences::Begin(const BatchView& batch) {
  batch_ = batch;
  failures_.clear();
}

void FailedSequences::FailUsers(Matrix<const std::int32_t> ids, std::int32_t expert,
                                const Error& error) {
  if (failures_.empty()) has_failed_.assign(batch_.segments.size(), 0);
  for (std::int64_t row = 0; row < ids.rows; ++row) {
    const std::int32_t segment = batch_.segment_of_row[static_cast<std::size_t>(row)];
    const std::span<const std::int32_t> chosen = ids.RowSpan(row);
    if (HasSegment(segment) || std::ranges::find(chosen, expert) == chosen.end()) continue;
    has_failed_[static_cast<std::size_t>(segment)] = 1;
    failures_.push_back(
        {.sequence = batch_.segments[static_cast<std::size_t>(segment)].sequence, .error = error});
  }
}

}  // namespace fathom
