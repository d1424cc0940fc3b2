// Recognizes weights of another layout than the published one by names and types of tensors.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/safetensors.h"

namespace fathom::checkpoint {

// Returns one sentence that names the layout of a checkpoint with unexpected tensors; none if the
// layout is unknown. Linear in the number of tensors.
std::optional<std::string> NameForeignLayout(const Checkpoint& checkpoint);

}  // namespace fathom::checkpoint
