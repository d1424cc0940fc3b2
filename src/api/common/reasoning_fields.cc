#include "api/common/reasoning_fields.h"

#include <string>
#include <string_view>
#include <utility>

#include "chat/profile.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

constexpr std::string_view kNoEffort = "none";
// Replaces "none" if reasoning is turned on and the default is none, too.
constexpr std::string_view kUsualEffort = "high";

// The first field of each kind that is present.
struct Choice {
  void Add(std::optional<bool> other) {
    if (!thinks) thinks = other;
  }
  void Add(std::string other) {
    if (effort.empty()) effort = std::move(other);
  }

  std::optional<bool> thinks;
  std::string effort;
};

std::optional<bool> ReadThinking(FieldReader& reader) {
  const JsonValue* thinking = reader.Find("thinking");
  if (thinking == nullptr) return std::nullopt;
  if (thinking->kind() == JsonValue::Kind::kBool) return thinking->boolean();
  const bool is_object = thinking->IsObject();
  const JsonValue* type = is_object ? thinking->Find("type") : thinking;
  if (type == nullptr || !type->IsString()) {
    reader.Fail("thinking", "an object with a type, true or false", *thinking);
    return std::nullopt;
  }
  const std::string_view name = type->text();
  if (name == "disabled") return false;
  if (name != "enabled" && name != "adaptive" && name != "auto") {
    reader.Fail(is_object ? "thinking.type" : "thinking", "enabled, disabled, adaptive or auto",
                *type);
  }
  return true;
}

std::string ReadEffort(FieldReader& reader, std::string_view key) {
  std::string effort = reader.Text(key);
  const PromptProfile& profile = PreviewProfile();  // all profiles have the same names
  if (!FindEffort(profile, effort)) {
    reader.Fail(key, "one of " + EffortNames(profile), PythonJsonString(effort));
  }
  return effort;
}

}  // namespace

bool ReadReasoningFields(FieldReader& reader, EncodeOptions* encoding) {
  Choice choice;
  choice.Add(ReadThinking(reader));
  choice.Add(reader.FindFlag("enable_thinking"));
  const JsonValue* think = reader.Find("think");
  if (think != nullptr && think->kind() == JsonValue::Kind::kBool) {
    choice.Add(think->boolean());
  } else {
    choice.Add(ReadEffort(reader, "think"));
  }
  choice.Add(ReadEffort(reader, "reasoning_effort"));
  reader.ReadObject("reasoning", [&](FieldReader& reasoning) {
    choice.Add(reasoning.FindFlag("enabled"));
    choice.Add(ReadEffort(reasoning, "effort"));
  });
  reader.ReadObject("output_config",
                    [&](FieldReader& output) { choice.Add(ReadEffort(output, "effort")); });
  reader.ReadObject("chat_template_kwargs", [&](FieldReader& arguments) {
    choice.Add(arguments.FindFlag("thinking"));
    choice.Add(arguments.FindFlag("enable_thinking"));
    choice.Add(ReadEffort(arguments, "reasoning_effort"));
    arguments.ReadBool("drop_thinking", &encoding->drop_thinking);
  });

  const bool asks_to_think = choice.thinks == true;
  if (asks_to_think && choice.effort == kNoEffort) choice.effort.clear();
  const bool has_chosen = choice.thinks || !choice.effort.empty();
  if (!choice.effort.empty()) encoding->effort = choice.effort;
  if (asks_to_think && encoding->effort == kNoEffort) encoding->effort = kUsualEffort;
  if (has_chosen) {  // an effort of none ends the thinking when the prompt is encoded
    encoding->thinking = choice.thinks == false ? ThinkingMode::kChat : ThinkingMode::kThinking;
  }
  return has_chosen;
}

std::optional<std::int64_t> ReadReasoningBudget(FieldReader& reader) {
  std::int64_t budget = kNoBudget;
  const auto read = [&budget](FieldReader& fields, std::string_view key) {
    std::int64_t found = budget;
    fields.ReadInteger(key, {.low = kNoBudget}, &found);
    if (budget == kNoBudget) budget = found;
  };
  for (const std::string_view key :
       {"thinking_token_budget", "thinking_budget_tokens", "thinking_budget", "reasoning_budget"}) {
    read(reader, key);
  }
  for (const auto& [object, key] :
       {std::pair("thinking", "budget_tokens"), std::pair("reasoning", "max_tokens")}) {
    const JsonValue* found = reader.Find(object);
    if (found == nullptr || !found->IsObject()) continue;  // other readers report the error
    reader.ReadObject(object, [&, key = key](FieldReader& fields) { read(fields, key); });
  }
  return budget == kNoBudget ? std::nullopt : std::optional(budget);
}

}  // namespace fathom::api
