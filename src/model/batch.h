// Batch: collects the tokens of one step, piece by piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/layer_cache.h"

namespace fathom::model {

// Owns the arrays a BatchView points into. Clear keeps the memory: after Reserve, adding up to the
// reserved number of tokens allocates nothing. One thread at a time.
class Batch {
 public:
  void Reserve(std::int64_t max_tokens, std::int64_t max_segments);
  void Clear();

  // Adds consecutive tokens of `sequence` (a slot of the model's caches), the first of them at
  // position `first_position`. A sequence may be added once per batch. Prefill chunks and single
  // decoded tokens are added alike.
  void Add(std::int32_t sequence, std::int32_t first_position, std::span<const Token> tokens);

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(tokens_.size()); }
  // Valid until the batch is changed.
  BatchView View() const { return {tokens_, positions_, segment_of_row_, segments_}; }

 private:
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> segment_of_row_;
  std::vector<Segment> segments_;
};

}  // namespace fathom::model
