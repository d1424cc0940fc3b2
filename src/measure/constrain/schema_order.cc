#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/constrain/constraint_check.h"

namespace fathom {
namespace {

constexpr int kMaxSchemaDepth = 64;       // of schemas that apply to one value
constexpr std::size_t kMaxSchemas = 256;  // that apply to one value

using Schemas = std::vector<const JsonValue*>;

// Finds what a $ref within the document names; null if that is not to be found.
const JsonValue* Resolve(const JsonValue& root, std::string_view reference) {
  if (reference.empty() || reference.front() != '#') return nullptr;
  reference.remove_prefix(1);
  const JsonValue* at = &root;
  while (at != nullptr && !reference.empty()) {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const std::size_t end = std::min(reference.find('/'), reference.size());
    std::string step;
    for (std::size_t i = 0; i < end; ++i) {
      const std::string_view rest = reference.substr(i, end - i);
      if (rest.starts_with("~0") || rest.starts_with("~1")) {
        step += rest[1] == '0' ? '~' : '/';
        ++i;
      } else {
        step += rest[0];
      }
    }
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

// Adds a schema and all that apply to the same value, in the order in which they are merged.
void AddApplying(const JsonValue& root, const JsonValue& schema, int depth, Schemas& applying) {
  const bool is_known = std::find(applying.begin(), applying.end(), &schema) != applying.end();
  if (!schema.IsObject() || is_known || depth > kMaxSchemaDepth || applying.size() >= kMaxSchemas) {
    return;
  }
  applying.push_back(&schema);
  for (std::size_t i = 0; i < schema.items().size(); ++i) {
    const std::string_view key = schema.key(i);
    const JsonValue& value = schema.items()[i];
    if (key == "$ref" || key == "$dynamicRef") {
      if (const JsonValue* target = Resolve(root, value.text())) {
        AddApplying(root, *target, depth + 1, applying);
      }
    } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      for (const JsonValue& branch : value.items()) AddApplying(root, branch, depth + 1, applying);
    } else if (key == "if" || key == "then" || key == "else") {
      AddApplying(root, value, depth + 1, applying);
    } else if (key == "dependentSchemas" || key == "dependencies") {
      for (const JsonValue& branch : value.items()) AddApplying(root, branch, depth + 1, applying);
    }
  }
}

JsonValue Ordered(const JsonValue& root, const Schemas& schemas, const JsonValue& value, int depth);

// The schemas of a member or an item.
Schemas SchemasOf(const JsonValue& root, const Schemas& schemas, std::string_view key) {
  Schemas found;
  for (const JsonValue* schema : schemas) {
    const JsonValue* properties = schema->Find("properties");
    const JsonValue* declared = properties != nullptr ? properties->Find(key) : nullptr;
    if (declared != nullptr) AddApplying(root, *declared, 0, found);
    for (const char* open : {"patternProperties"}) {
      const JsonValue* patterns = schema->Find(open);
      if (patterns == nullptr) continue;
      for (const JsonValue& pattern : patterns->items()) AddApplying(root, pattern, 0, found);
    }
    const JsonValue* others = schema->Find("additionalProperties");
    if (declared == nullptr && others != nullptr) AddApplying(root, *others, 0, found);
  }
  return found;
}

Schemas SchemasOfItem(const JsonValue& root, const Schemas& schemas, std::size_t index) {
  Schemas found;
  for (const JsonValue* schema : schemas) {
    for (const char* list : {"prefixItems", "items"}) {
      const JsonValue* items = schema->Find(list);
      if (items == nullptr) continue;
      if (items->IsArray() && index < items->items().size()) {
        AddApplying(root, items->items()[index], 0, found);
      } else if (items->IsObject()) {
        AddApplying(root, *items, 0, found);
      }
    }
    for (const char* more : {"additionalItems", "contains"}) {
      const JsonValue* items = schema->Find(more);
      if (items != nullptr) AddApplying(root, *items, 0, found);
    }
  }
  return found;
}

// The keys that the schemas name, in their order.
std::vector<std::string_view> NamedKeys(const Schemas& schemas) {
  std::vector<std::string_view> keys;
  std::set<std::string_view> known;
  const auto add = [&](std::string_view key) {
    if (known.insert(key).second) keys.push_back(key);
  };
  for (const JsonValue* schema : schemas) {
    const JsonValue* properties = schema->Find("properties");
    if (properties == nullptr || !properties->IsObject()) continue;
    for (std::size_t i = 0; i < properties->items().size(); ++i) add(properties->key(i));
  }
  for (const JsonValue* schema : schemas) {
    const JsonValue* required = schema->Find("required");
    if (required == nullptr) continue;
    for (const JsonValue& key : required->items()) add(key.text());
  }
  return keys;
}

JsonValue OrderedObject(const JsonValue& root, const Schemas& schemas, const JsonValue& value,
                        int depth) {
  std::vector<std::pair<std::size_t, std::size_t>> order;  // of the schema, of the value
  const std::vector<std::string_view> keys = NamedKeys(schemas);
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    const auto found = std::find(keys.begin(), keys.end(), value.key(i));
    order.emplace_back(static_cast<std::size_t>(found - keys.begin()), i);
  }
  std::sort(order.begin(), order.end());
  JsonValue ordered = JsonValue::Object();
  for (const auto& [rank, i] : order) {
    const std::string_view key = value.key(i);
    ordered.Add(key, Ordered(root, SchemasOf(root, schemas, key), value.items()[i], depth + 1));
  }
  return ordered;
}

// `depth` is bounded by that of the JSON that was parsed.
JsonValue Ordered(const JsonValue& root, const Schemas& schemas, const JsonValue& value,
                  int depth) {
  if (value.IsObject()) return OrderedObject(root, schemas, value, depth);
  if (!value.IsArray()) return value;
  JsonValue ordered = JsonValue::Array();
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    ordered.push_back(Ordered(root, SchemasOfItem(root, schemas, i), value.items()[i], depth + 1));
  }
  return ordered;
}

}  // namespace

JsonValue InSchemaOrder(const JsonValue& schema, const JsonValue& value) {
  Schemas applying;
  AddApplying(schema, schema, 0, applying);
  return Ordered(schema, applying, value, 0);
}

}  // namespace fathom
