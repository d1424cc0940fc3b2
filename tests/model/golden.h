// The results of the official code, and the distance of a result from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/safetensors.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace fathom::testing {

// Medians and means of a KL divergence in nats.
struct Divergence {
  double median = 0.0;
  double mean = 0.0;
};

// golden.safetensors and golden.json of a case (oracle/README.md).
struct Golden {
  Checkpoint file;
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;  // the positions of the rows of `logits`; empty: all
  std::int64_t n_prefill = 0;           // tokens of the first call; the others came one by one
  Divergence logits_floor;
  Divergence mtp_floor;

  Matrix<const float> Logits() const { return Floats("logits"); }
  Matrix<const float> MtpLogits() const { return Floats("mtp_logits"); }
  // Output of layer `layer` - 1 (0: the embedding in four streams), [positions, 4 * hidden].
  Matrix<const Bf16> Streams(std::int64_t layer) const;

 private:
  Matrix<const float> Floats(std::string_view name) const;
};

// Fails the calling test if the files cannot be read.
Golden ReadGolden(const std::filesystem::path& directory, const std::string& name);

// Logits of every position of `tokens` that `positions` lists (empty: all), rows in that order.
struct ModelLogits {
  std::vector<float> logits;
  std::vector<float> mtp_logits;  // rows t of positions where t + 1 is a token too
};
ModelLogits RunModel(Model& model, const std::vector<Token>& tokens,
                     const std::vector<std::int32_t>& positions, std::int64_t chunk);

// KL(softmax(expected) || softmax(actual)) of every row.
Divergence KlDivergence(Matrix<const float> expected, const std::vector<float>& actual);

}  // namespace fathom::testing
