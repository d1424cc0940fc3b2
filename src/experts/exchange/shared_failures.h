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
#include "model/forward_pass.h"
#include "model/streaming_counts.h"

namespace fathom::experts {

// Allocates when something fails. One thread; all ranks call Share at the same time.
class SharedFailures {
 public:
  // `ranks`: the ranks of a stage with layers [first_layer, end_layer); must outlive this object.
  SharedFailures(Communicator& ranks, std::int64_t first_layer, std::int64_t end_layer)
      : ranks_(ranks), first_layer_(first_layer), end_layer_(end_layer) {}

  // Notes the experts [t, k] that this rank's tokens chose in a block of a main pass. Blocks of
  // drafts are not noted.
  void Note(ForwardPass& pass, std::int64_t block, Matrix<const std::int32_t> ids) const;
  // Adds to pass.failed the sequences whose tokens chose experts that could not be read by the rank
  // that computes them (expert_failures), the same on all ranks. `counts`: the counts of this rank.
  // Errors: a rank that is gone.
  Status Share(ForwardPass& pass, const ExpertHomes& homes, const StreamingCounts& counts);
  // Returns the counts of the other ranks in the last call of Share.
  std::span<const StreamingCounts> counts_of_others() const { return counts_of_others_; }

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
  // Returns the place of the notes of a layer: [t, k].
  Matrix<std::int32_t> Notes(const ForwardPass& pass, std::int64_t layer) const;
  // Adds the segments of this rank's tokens that chose an expert of `news`, each once.
  void FindUsers(const ForwardPass& pass, const News& news, const ExpertHomes& homes,
                 std::vector<News>& segments) const;

  Communicator& ranks_;
  std::int64_t first_layer_, end_layer_;
  std::vector<StreamingCounts> counts_of_others_;
};

}  // namespace fathom::experts
