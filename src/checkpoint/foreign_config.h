// Recognizes configurations that other programs have written, so that one sentence names the cause
// instead of a list of missing fields and tensors.
#pragma once

#include <string_view>

#include "base/result.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/model_config.h"

namespace fathom::checkpoint {

// Errors (kUnsupported), one sentence: a config.json that transformers has saved, in which fields
// of the published form are missing; weights quantized by another program.
Status CheckIsPublishedForm(const ConfigFields& fields, std::string_view file_name);

// Records a problem for each transformers field that contradicts the published field of `config` in
// the same file.
void CheckFormsAgree(ConfigFields& fields, const ModelConfig& config);

}  // namespace fathom::checkpoint
