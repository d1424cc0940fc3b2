#include "model/failed_sequences.h"

#include <algorithm>

namespace fathom::model {

void FailedSequences::Begin(const BatchView& batch) {
  batch_ = batch;
  failures_.clear();
}

void FailedSequences::Fail(std::int64_t segment, const Error& error) {
  if (HasSegment(segment)) return;
  if (failures_.empty()) has_failed_.assign(batch_.segments.size(), 0);
  const auto i = static_cast<std::size_t>(segment);
  has_failed_[i] = 1;
  failures_.push_back({.sequence = batch_.segments[i].sequence, .error = error});
}

void FailedSequences::FailUsers(Matrix<const std::int32_t> ids, std::int32_t expert,
                                const Error& error) {
  for (std::int64_t row = 0; row < ids.rows; ++row) {
    const std::span<const std::int32_t> chosen = ids.RowSpan(row);
    if (std::ranges::find(chosen, expert) == chosen.end()) continue;
    Fail(batch_.segment_of_row[static_cast<std::size_t>(row)], error);
  }
}

}  // namespace fathom::model
