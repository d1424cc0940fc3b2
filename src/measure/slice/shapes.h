// The published models by their sizes, and the part of one that becomes a slice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"

namespace fathom {

// What config.json of the published checkpoint says (docs/spec/model.md 1.1).
ModelConfig FlashConfig();
ModelConfig ProConfig();

// The choices that leave the size of every tensor of a layer as it is, but for the number of
// experts.
struct SliceCut {
  std::vector<int> ratios;                // of each layer: 0, 4 or 128
  std::optional<std::int64_t> n_experts;  // routed, per layer; missing: as many as there are
  std::int64_t vocab_size = 0;
  bool draft = false;  // with the MTP head
};

// `whole` cut down. No layer routes by token id. Nothing is checked.
ModelConfig CutConfig(ModelConfig whole, const SliceCut& cut);

// The text of config.json, with the fields of the published ones in their order.
std::string ConfigJson(const ModelConfig& config);

}  // namespace fathom
