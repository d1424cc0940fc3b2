// Checks the values of tensors: scales that are no numbers, experts that do not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/thread_team.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_memory.h"
#include "kernels/weight_format.h"

namespace fathom::model {

// Describes the first scale that is no number (E8M0 255, F32 that is not finite): "expected finite
// scales, found NaN (byte 255) at element 3"; nullopt if there is none. Any alignment.
std::optional<std::string> FindBadScale(std::span<const std::byte> scales, ScaleFormat format);

// Error kInvalidData: a scale of the expert is no number. `moe`: the name of its layer's experts
// (MoeWeights::name).
Status CheckExpertScales(const ExpertWeights& expert, std::string_view moe, std::int32_t id);

// The tensors that CheckWeightValues reads.
enum class WeightValues {
  kAll,             // a sixteenth of the files
  kOutsideExperts,  // a few megabytes: not the scales of routed experts (MappedExperts)
};

// Reads the values that could be invalid: scales and expert ids. `share`: reads only tensors with
// bytes in these pieces; nullptr: all tensors. The error lists the first 20 problems.
Status CheckWeightValues(const Checkpoint& checkpoint, const ModelConfig& config,
                         WeightValues which, ThreadTeam& team, const MemoryPieces* share = nullptr);

}  // namespace fathom::model
