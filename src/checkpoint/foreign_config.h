// Configurations that other programs have written: recognised, so that one sentence names the cause
// where a list of missing fields and tensors would follow.
#pragma once

#include <string_view>

#include "base/result.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/model_config.h"

namespace fathom {

// Errors (kUnsupported), one sentence: a config.json that transformers has saved again, in which
// fields of the published form are missing; weights quantized by another program.
Status CheckIsPublishedForm(const ConfigFields& fields, std::string_view file_name);

// Records a problem for each field of transformers that contradicts the published field of `config`
// beside it.
void CheckFormsAgree(ConfigFields& fields, const ModelConfig& config);

}  // namespace fathom
