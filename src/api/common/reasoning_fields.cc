#include "api/common/reasoning_fields.h"

#include "json/json_value.h"

namespace fathom {

std::optional<bool> ReadThinkingType(FieldReader& reader) {
  const JsonValue* thinking = reader.Find("thinking");
  if (thinking == nullptr) return std::nullopt;
  const JsonValue* type = thinking->Find("type");
  if (type == nullptr || !type->IsString()) {
    reader.Fail("thinking", "an object with a type", *thinking);
    return std::nullopt;
  }
  if (type->text != "enabled" && type->text != "disabled" && type->text != "adaptive") {
    reader.Fail("thinking.type", "enabled, disabled or adaptive", *type);
  }
  return type->text != "disabled";
}

void ApplyReasoning(const ReasoningFields& fields, EncodeOptions* encoding) {
  if (!fields.effort.empty()) {
    encoding->effort = fields.effort;
    encoding->thinking = ThinkingMode::kThinking;  // unless the effort is none
  }
  if (fields.thinks) {
    encoding->thinking = *fields.thinks ? ThinkingMode::kThinking : ThinkingMode::kChat;
    if (*fields.thinks && encoding->effort == "none") encoding->effort.clear();
  }
}

}  // namespace fathom
