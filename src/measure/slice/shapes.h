// The sizes of the published models, and the part of a model that becomes a slice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"

namespace fathom::model {
struct DrafterKind;
}  // namespace fathom::model

namespace fathom::measure {

// Returns the configuration of the published checkpoint (docs/spec/model.md 1.1).
ModelConfig FlashConfig();
ModelConfig ProConfig();

// The parameters of a slice. They leave the size of every tensor of a layer unchanged, except for
// the number of experts.
struct SliceSizes {
  std::vector<int> ratios;                // ratio of each layer: 0, 4 or 128
  std::optional<std::int64_t> n_experts;  // routed experts per layer; missing: the model's number
  std::int64_t vocab_size = 0;
  std::int64_t n_hash_layers = 0;      // the first layers, which choose experts by the token
  const DrafterKind* draft = nullptr;  // the head that drafts; null: none
};

// Returns `whole` reduced to the slice. Checks nothing.
ModelConfig SliceConfig(ModelConfig whole, const SliceSizes& sizes);

// Returns the text of config.json, with the fields in the order of the published files.
std::string ConfigJson(const ModelConfig& config);

}  // namespace fathom::measure
