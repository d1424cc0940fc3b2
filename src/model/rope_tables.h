// RopeTables: the frequencies of the two kinds of RoPE, and the rows of a step.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/workspace.h"

namespace fathom::model {

// To be used from one thread at a time, the thread of the backend.
class RopeTables {
 public:
  // The backend must outlive the tables. Error: no memory.
  static Result<RopeTables> Create(Backend& backend, const ModelConfig& config);

  // In memory of the backend.
  std::span<const float> compress_frequencies() const { return compress_.numbers; }
  // Fills a.window_cos, window_sin, compress_cos and compress_sin: a row per token.
  void Fill(const BatchView& batch, const Activations& a) const;

 private:
  struct Frequencies {
    std::unique_ptr<Buffer> memory;
    std::span<const float> numbers;  // in `memory`
  };

  explicit RopeTables(Backend& backend) : backend_(&backend) {}
  Status Upload(std::span<const float> numbers, Frequencies& frequencies);

  Backend* backend_;
  Frequencies window_;
  Frequencies compress_;
};

}  // namespace fathom::model
