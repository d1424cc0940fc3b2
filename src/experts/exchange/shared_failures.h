// SharedFailures: the sequences of a step that need experts which a rank cannot read, so that all
// ranks of a stage go on with the others.
//
// A rank computes its experts for tokens of which it may know nothing. So it says which experts of
// which blocks it could not read, and each rank looks up which of its own tokens chose them. A step
// without failures costs a message of some 200 bytes from each rank to each, most of them what the
// rank has counted so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "comm/communicator.h"
#include "experts/exchange/expert_exchange.h"
#include "kernels/layer_cache.h"
#include "kv_cache/data_ranks.h"
#include "model/sequence_failure.h"
#include "model/streaming_counts.h"

namespace fathom {

// The largest calls, and the blocks of the stage whose experts count.
struct FailureShape {
  std::int64_t first_block = 0;
  std::int64_t end_block = 0;
  std::int64_t max_tokens = 0;  // of all ranks together
  std::int64_t experts_per_token = 0;
};

// Allocates in the constructor, and where something fails. One thread; all ranks call Begin and
// Share at the same time.
class SharedFailures {
 public:
  // `ranks`, those of the stage, outlive it.
  SharedFailures(Communicator& ranks, const DataRanks& data, const FailureShape& shape);

  // Begins a step, at whose end the arrays of `whole`, the batch of all ranks, may go.
  void Begin(const BatchView& whole);
  // Notes the experts [t, k] that this rank's tokens chose in a block. Blocks outside the shape are
  // not noted.
  void Note(std::int64_t block, Matrix<const std::int32_t> ids);
  // Returns the sequences whose tokens chose experts that could not be read by the rank that
  // computes them, the same on all ranks, until Begin. `mine`: what this rank could not read;
  // `counts`: its counts. Errors: a rank that is gone.
  Result<std::span<const SequenceFailure>> Share(std::span<const ExpertFailure> mine,
                                                 const ExpertHomes& homes,
                                                 const StreamingCounts& counts);
  // The counts of the other ranks in the last call of Share.
  std::span<const StreamingCounts> counts_of_others() const { return counts_of_others_; }

  // Bytes that are allocated at the start.
  static std::int64_t BytesFor(const FailureShape& shape);
  std::int64_t bytes() const { return BytesFor(shape_); }

 private:
  // An expert of a block that a rank could not read, or a segment of the batch that needs one.
  struct News {
    int from = 0;
    std::int64_t place = 0;  // block, or segment
    std::int32_t expert = 0;
    Error error;
  };
  static std::vector<std::byte> Pack(std::span<const News> mine);
  // Gives every rank the news of all, in the order of the ranks; `sizes`: of what they have packed.
  Result<std::vector<News>> Gather(std::vector<std::byte> packed,
                                   std::span<const std::int64_t> sizes);
  // Gives every rank the counts of all, and the sizes of what they have packed.
  Status ShareCounts(const StreamingCounts& mine, std::int64_t n_packed,
                     std::vector<std::int64_t>& sizes);
  static Status Unpack(int from, std::span<const std::byte> bytes, std::vector<News>& all);
  // Fails the segments of this rank's tokens that chose an expert of `news`.
  void FailUsers(const News& news, const ExpertHomes& homes);
  void FailSegment(std::int64_t segment, const Error& error);

  Communicator& ranks_;
  DataRanks data_;
  FailureShape shape_;
  BatchView whole_;
  std::vector<std::int32_t> own_rows_;    // rows of the batch whose tokens this rank has
  std::vector<std::int32_t> ids_;         // [blocks, own rows, k]
  std::vector<std::uint8_t> has_failed_;  // by segment
  std::vector<News> segments_;            // that this rank has found
  std::vector<SequenceFailure> failures_;
  std::vector<StreamingCounts> counts_of_others_;
};

}  // namespace fathom
