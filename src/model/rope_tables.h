// RopeTables: the frequencies of the two kinds of RoPE, and the rows of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/model_config.h"
#include "model/workspace.h"

namespace fathom {

// Immutable; any thread.
class RopeTables {
 public:
  explicit RopeTables(const ModelConfig& config);

  std::span<const float> compress_frequencies() const { return compress_; }
  // Fills a.window_cos, window_sin, compress_cos and compress_sin: a row per position.
  void Fill(std::span<const std::int32_t> positions, const Activations& a) const;

 private:
  std::vector<float> window_;
  std::vector<float> compress_;
};

}  // namespace fathom
