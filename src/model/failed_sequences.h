// FailedSequences: the sequences of a pass whose tokens need experts that cannot be read. The other
// sequences continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "model/sequence_failure.h"

namespace fathom::model {

// One thread at a time. Allocates only when something fails.
class FailedSequences {
 public:
  // Begins a pass without failures. The arrays of `batch` must stay valid until the pass ends.
  void Begin(const BatchView& batch);
  // Fails the sequence of a segment, unless it has failed already.
  void Fail(std::int64_t segment, const Error& error);
  // Fails the sequences whose rows of ids [t, k] name the expert.
  void FailUsers(Matrix<const std::int32_t> ids, std::int32_t expert, const Error& error);

  bool HasRow(std::int64_t row) const {
    return !failures_.empty() && HasSegment(batch_.segment_of_row[static_cast<std::size_t>(row)]);
  }
  bool HasAll() const { return !failures_.empty() && failures_.size() == batch_.segments.size(); }
  std::span<const SequenceFailure> failures() const { return failures_; }

 private:
  bool HasSegment(std::int64_t segment) const {
    return !failures_.empty() && has_failed_[static_cast<std::size_t>(segment)] != 0;
  }

  BatchView batch_;
  std::vector<std::uint8_t> has_failed_;  // by segment
  std::vector<SequenceFailure> failures_;
};

}  // namespace fathom::model
