// The format of the routed experts (docs/spec/checkpoint.md 4), found from the tensors of a
// checkpoint; the configuration may omit it or be wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom::checkpoint {

// The number of routed experts of the main layers in each format, by the dtype of w1.weight.
struct ExpertFormats {
  std::int64_t n_fp4 = 0;    // I8
  std::int64_t n_fp8 = 0;    // F8_E4M3
  std::int64_t n_other = 0;  // not a format of this model
};
ExpertFormats FindExpertFormats(const Checkpoint& checkpoint);

// Returns a warning if the configuration contradicts the tensors, which decide. nullopt: they
// agree, or there are no experts.
std::optional<std::string> ExpertFormatWarning(const ModelConfig& config,
                                               const ExpertFormats& formats);

}  // namespace fathom::checkpoint
