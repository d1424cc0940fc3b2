// SharedFailures: finds the sequences of a step that need experts that some rank cannot read, so
// that all ranks of a stage can continue with the other sequences.
//
// A rank computes its experts for tokens whose sequences it may not know. So each rank tells the
// others which experts of which blocks it could not read, and looks up which of its own tokens
// chose the experts that others report. A step without failures costs a message of some 200 bytes
// from each rank to each other rank, most of it the rank's counts so far.
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

// The size of the largest calls, and the blocks of the stage whose experts count.
struct FailureShape {
  std::int64_t first_block = 0;
  std::int64_t end_block = 0;
  std::int64_t max_tokens = 0;  // tokens of all ranks together
  std::int64_t experts_per_token = 0;
};

// Allocates in the constructor, and when something fails. One thread; all ranks call Begin and
// Share at the same time.
class SharedFailures {
 public:
  // `ranks`: the ranks of the stage; must outlive this object.
  SharedFailures(Communicator& ranks, const DataRanks& data, const FailureShape& shape);

  // Begins a step. The arrays of `whole`, the batch of all ranks, must stay valid until the step
  // ends.
  void Begin(const BatchView& whole);
  // Notes the experts [t, k] that this rank's tokens chose in a block. Blocks outside the shape are
  // not noted.
  void Note(std::int64_t block, Matrix<const std::int32_t> ids);
  // Returns the sequences whose tokens chose experts that could not be read by the rank that
  // computes them, the same on all ranks, until Begin. `mine`: the experts that this rank could not
  // read; `counts`: its counts. Errors: a rank that is gone.
  Result<std::span<const SequenceFailure>> Share(std::span<const ExpertFailure> mine,
                                                 const ExpertHomes& homes,
                                                 const StreamingCounts& counts);
  // Returns the counts of the other ranks in the last call of Share.
  std::span<const StreamingCounts> counts_of_others() const { return counts_of_others_; }

  // Returns the bytes that are allocated at the start.
  static std::int64_t BytesFor(const FailureShape& shape);
  std::int64_t bytes() const { return BytesFor(shape_); }

 private:
  // An expert of a block that a rank could not read, or a segment of the batch that needs one.
  struct News {
    int from = 0;
    std::int64_t place = 0;  // number of the block or segment
    std::int32_t expert = 0;
    Error error;
  };
  static std::vector<std::byte> Pack(std::span<const News> mine);
  // Sends the news of every rank to all ranks, in the order of the ranks; `sizes`: bytes packed by
  // each.
  Result<std::vector<News>> Gather(std::vector<std::byte> packed,
                                   std::span<const std::int64_t> sizes);
  // Sends the counts of every rank, and the size of its packed news, to all ranks.
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
  std::vector<News> segments_;            // segments that this rank has found
  std::vector<SequenceFailure> failures_;
  std::vector<StreamingCounts> counts_of_others_;
};

}  // namespace fathom
