#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "json/json_pointer.h"
#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"

namespace fathom::measure {
namespace {

constexpr int kMaxSchemaDepth = 64;       // depth of schemas that apply to one value
constexpr std::size_t kMaxSchemas = 256;  // schemas that apply to one value

using Schemas = std::vector<const JsonValue*>;

// Finds the target of a $ref within the document; null if there is none.
const JsonValue* Resolve(const JsonValue& root, std::string_view reference) {
  if (reference.empty() || reference.front() != '#') return nullptr;
  reference.remove_prefix(1);
  const JsonValue* at = &root;
  while (at != nullptr && !reference.empty()) {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const std::size_t end = std::min(reference.find('/'), reference.size());
    const std::string step = UnescapedPointerStep(reference.substr(0, end));
    reference.remove_prefix(end);
    if (at->IsArray()) {
      const auto n = static_cast<std::size_t>(std::strtoul(step.c_str(), nullptr, 10));
      at = n < at->items().size() ? &at->items()[n] : nullptr;
    } else {
      at = at->Find(step);
    }
  }
  return at;
}

// The schemas that apply to one value, and the keys that they name.
class ApplyingSchemas {
 public:
  explicit ApplyingSchemas(const JsonValue& root) : root_(root) {}

  // Adds a schema and all schemas that apply to the same value, in the order in which they are
  // merged. This is the order of the text, except that the schema's own keywords count as one at
  // the place of `properties`, or of the first of them.
  void Add(const JsonValue& schema, int depth = 0) {
    const bool is_bounded = depth <= kMaxSchemaDepth && visited_.size() < kMaxSchemas;
    if (!schema.IsObject() || !is_bounded || !visited_.insert(&schema).second) return;
    const bool has_properties = schema.Find("properties") != nullptr;
    bool is_added = false;
    for (std::size_t i = 0; i < schema.items().size(); ++i) {
      if (AddApplied(schema, i, depth + 1) || is_added) continue;
      if (has_properties && schema.key(i) != "properties") continue;
      schemas_.push_back(&schema);
      if (const JsonValue* properties = schema.Find("properties")) NameKeysOf(*properties);
      if (const JsonValue* required = schema.Find("required")) NameTexts(*required);
      is_added = true;
    }
  }
  const Schemas& schemas() const { return schemas_; }
  // Returns the keys in the order in which the schemas name them.
  const std::vector<std::string_view>& keys() const { return keys_; }

 private:
  void Name(std::string_view key) {
    if (known_keys_.insert(key).second) keys_.push_back(key);
  }
  void NameKeysOf(const JsonValue& properties) {
    if (!properties.IsObject()) return;
    for (std::size_t i = 0; i < properties.items().size(); ++i) Name(properties.key(i));
  }
  void NameTexts(const JsonValue& list) {
    for (const JsonValue& key : list.items()) Name(key.text());
  }

  // Adds each key on which others depend before the keys that depend on it.
  void AddDependencies(const JsonValue& dependencies, int depth) {
    if (!dependencies.IsObject()) return;
    for (std::size_t i = 0; i < dependencies.items().size(); ++i) {
      const JsonValue& dependent = dependencies.items()[i];
      Name(dependencies.key(i));
      if (dependent.IsArray()) {
        NameTexts(dependent);
      } else {
        Add(dependent, depth);
      }
    }
  }

  // Adds the schemas that a keyword applies to the same value. Returns false if there are none.
  bool AddApplied(const JsonValue& schema, std::size_t member, int depth) {
    const std::string_view key = schema.key(member);
    const JsonValue& value = schema.items()[member];
    if (key == "$ref" || key == "$dynamicRef") {
      if (const JsonValue* target = Resolve(root_, value.text())) Add(*target, depth);
    } else if (key == "dependencies" || key == "dependentRequired" || key == "dependentSchemas") {
      AddDependencies(value, depth);
    } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      for (const JsonValue& branch : value.items()) Add(branch, depth);
    } else if (key == "if") {
      Add(value, depth);
      for (const char* branch : {"then", "else"}) {
        if (const JsonValue* other = schema.Find(branch)) Add(*other, depth);
      }
    } else {
      return key == "not";
    }
    return true;
  }

  const JsonValue& root_;
  Schemas schemas_;
  std::set<const JsonValue*> visited_;
  std::vector<std::string_view> keys_;
  std::set<std::string_view> known_keys_;
};

JsonValue Ordered(const JsonValue& root, const ApplyingSchemas& applying, const JsonValue& value);

// Returns the schemas of a member or an item.
ApplyingSchemas InnerSchemas(const JsonValue& root, const Schemas& schemas, std::string_view key) {
  ApplyingSchemas found(root);
  for (const JsonValue* schema : schemas) {
    const JsonValue* properties = schema->Find("properties");
    const JsonValue* declared = properties != nullptr ? properties->Find(key) : nullptr;
    if (declared != nullptr) found.Add(*declared);
    if (const JsonValue* patterns = schema->Find("patternProperties")) {
      for (const JsonValue& pattern : patterns->items()) found.Add(pattern);
    }
    const JsonValue* others = schema->Find("additionalProperties");
    if (declared == nullptr && others != nullptr) found.Add(*others);
  }
  return found;
}

ApplyingSchemas SchemasOfItem(const JsonValue& root, const Schemas& schemas, std::size_t index) {
  ApplyingSchemas found(root);
  for (const JsonValue* schema : schemas) {
    for (const char* list : {"prefixItems", "items"}) {
      const JsonValue* items = schema->Find(list);
      if (items == nullptr) continue;
      if (items->IsArray() && index < items->items().size()) {
        found.Add(items->items()[index]);
      } else if (items->IsObject()) {
        found.Add(*items);
      }
    }
    for (const char* more : {"additionalItems", "contains"}) {
      const JsonValue* items = schema->Find(more);
      if (items != nullptr) found.Add(*items);
    }
  }
  return found;
}

JsonValue OrderedObject(const JsonValue& root, const ApplyingSchemas& applying,
                        const JsonValue& value) {
  // Sorted by the place in the schema, then by the text of the key.
  std::vector<std::tuple<std::size_t, std::string, std::size_t>> order;
  const std::vector<std::string_view>& keys = applying.keys();
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    const auto found = std::find(keys.begin(), keys.end(), value.key(i));
    order.emplace_back(static_cast<std::size_t>(found - keys.begin()),
                       WriteJson(JsonValue(value.key(i))), i);
  }
  std::sort(order.begin(), order.end());
  JsonValue ordered = JsonValue::Object();
  for (const auto& [rank, text, i] : order) {
    const std::string_view key = value.key(i);
    ordered.Add(key, Ordered(root, InnerSchemas(root, applying.schemas(), key), value.items()[i]));
  }
  return ordered;
}

// The depth of calls is the depth of the parsed JSON.
JsonValue Ordered(const JsonValue& root, const ApplyingSchemas& applying, const JsonValue& value) {
  if (value.IsObject()) return OrderedObject(root, applying, value);
  if (!value.IsArray()) return value;
  JsonValue ordered = JsonValue::Array();
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    ordered.push_back(Ordered(root, SchemasOfItem(root, applying.schemas(), i), value.items()[i]));
  }
  return ordered;
}

}  // namespace

JsonValue InSchemaOrder(const JsonValue& schema, const JsonValue& value) {
  ApplyingSchemas applying(schema);
  applying.Add(schema);
  return Ordered(schema, applying, value);
}

}  // namespace fathom::measure
