// The reasoning fields that several APIs share. docs/spec/encoding.md section 5.
#pragma once

#include <optional>
#include <string>

#include "chat/chat.h"
#include "json/field_reader.h"

namespace fathom {

struct ReasoningFields {
  std::optional<bool> thinks;  // none: the effort decides, then the default
  std::string effort;          // "" if absent
};

// Reads thinking: {"type": "enabled" | "disabled" | "adaptive"}. "adaptive" leaves the choice to
// the model, which thinks.
std::optional<bool> ReadThinkingType(FieldReader& reader);

// `encoding` holds the defaults.
void ApplyReasoning(const ReasoningFields& fields, EncodeOptions* encoding);

}  // namespace fathom
