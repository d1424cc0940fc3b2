// The fields about reasoning that several APIs have in common. docs/spec/encoding.md section 5.
#pragma once

#include <optional>
#include <string>

#include "chat/chat.h"
#include "json/field_reader.h"

namespace fathom {

struct ReasoningFields {
  std::optional<bool> thinks;  // none: the effort decides, then the default
  std::string effort;          // "" if the client said nothing
};

// thinking: {"type": "enabled" | "disabled" | "adaptive"}. "adaptive" leaves it to the model, which
// then thinks.
std::optional<bool> ReadThinkingType(FieldReader& reader);

// `encoding` holds the defaults.
void ApplyReasoning(const ReasoningFields& fields, EncodeOptions* encoding);

}  // namespace fathom
