// The choice of the draft head for Model::Load, and warnings about the checkpoint.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/head_kind.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// Adds to `warnings` what the user should know. Errors: with_draft, and there is no head that a
// drafter of the table uses; draft tensors that make no head.
Result<DraftHead> ChooseHead(const Checkpoint& checkpoint, const ModelConfig& config,
                             bool with_draft, std::vector<std::string>& warnings);

}  // namespace fathom
