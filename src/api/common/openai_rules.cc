#include "api/common/openai_rules.h"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "json/json_pointer.h"

namespace fathom::api {
namespace {

bool IsObjectSchema(const JsonValue& schema) {
  const JsonValue* type = schema.Find("type");
  if (type == nullptr) return schema.Find("properties") != nullptr;
  if (type->text() == "object") return true;
  for (const JsonValue& one : type->items()) {
    if (one.text() == "object") return true;
  }
  return false;
}

class RuleChecker {
 public:
  std::vector<ConstraintIssue> CheckRoot(const JsonValue& schema) {
    if (schema.FindText("type") != "object") {
      Add("", "type", "the root is an object: expected \"type\": \"object\"");
    }
    Check(schema, "");
    return std::move(issues_);
  }

 private:
  bool IsFull() const { return issues_.size() >= kMaxIssues; }

  void Add(const std::string& pointer, std::string keyword, std::string reason) {
    if (IsFull()) return;
    issues_.push_back(
        {.pointer = pointer, .keyword = std::move(keyword), .reason = std::move(reason)});
  }

  // The depth of calls is at most the depth of JSON (ParseJson).
  void Check(const JsonValue& schema, const std::string& pointer) {
    if (!schema.IsObject() || IsFull()) return;
    if (IsObjectSchema(schema)) CheckObject(schema, pointer);
    for (const std::string_view key : {"properties", "$defs", "definitions"}) {
      const JsonValue* members = schema.Find(key);
      if (members == nullptr || !members->IsObject()) continue;
      for (std::size_t i = 0; i < members->items().size() && !IsFull(); ++i) {
        Check(members->items()[i],
              fmt::format("{}/{}/{}", pointer, key, EscapedPointerStep(members->key(i))));
      }
    }
    if (const JsonValue* items = schema.Find("items")) Check(*items, pointer + "/items");
    const JsonValue* any = schema.Find("anyOf");
    for (std::size_t i = 0; any != nullptr && i < any->items().size() && !IsFull(); ++i) {
      Check(any->items()[i], fmt::format("{}/anyOf/{}", pointer, i));
    }
  }

  void CheckObject(const JsonValue& schema, const std::string& pointer) {
    const JsonValue* others = schema.Find("additionalProperties");
    if (others == nullptr || others->kind() != JsonValue::Kind::kBool || others->boolean()) {
      Add(pointer, "additionalProperties", "expected false under OpenAI's strict rules");
    }
    std::set<std::string_view> required;
    if (const JsonValue* names = schema.Find("required")) {
      for (const JsonValue& name : names->items()) required.insert(name.text());
    }
    const JsonValue* properties = schema.Find("properties");
    if (properties == nullptr || !properties->IsObject()) return;
    for (std::size_t i = 0; i < properties->items().size(); ++i) {
      if (required.contains(properties->key(i))) continue;
      Add(pointer, "required",
          fmt::format("expected all properties under OpenAI's strict rules, \"{}\" is missing",
                      properties->key(i)));
      return;
    }
  }

  std::vector<ConstraintIssue> issues_;
};

}  // namespace

std::vector<ConstraintIssue> BrokenOpenAiRules(const JsonValue& schema) {
  return RuleChecker().CheckRoot(schema);
}

}  // namespace fathom::api
