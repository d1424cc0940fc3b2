#include "model/batch.h"

namespace fathom::model {

void Batch::Reserve(std::int64_t max_tokens, std::int64_t max_segments) {
  tokens_.reserve(static_cast<std::size_t>(max_tokens));
  positions_.reserve(static_cast<std::size_t>(max_tokens));
  segment_of_row_.reserve(static_cast<std::size_t>(max_tokens));
  segments_.reserve(static_cast<std::size_t>(max_segments));
}

void Batch::Clear() {
  tokens_.clear();
  positions_.clear();
  segment_of_row_.clear();
  segments_.clear();
}

void Batch::Add(std::int32_t sequence, std::int32_t first_position, std::span<const Token> tokens) {
  const auto segment = static_cast<std::int32_t>(segments_.size());
  segments_.push_back({.sequence = sequence,
                       .first_row = static_cast<std::int32_t>(tokens_.size()),
                       .n_tokens = static_cast<std::int32_t>(tokens.size()),
                       .first_position = first_position});
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens_.push_back(tokens[i]);
    positions_.push_back(first_position + static_cast<std::int32_t>(i));
    segment_of_row_.push_back(segment);
  }
}

}  // namespace fathom::model
