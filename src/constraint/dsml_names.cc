#include "constraint/dsml_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/parse_text.h"
#include "json/json_pointer.h"

namespace fathom::constraint {
namespace {

// Keywords whose schemas apply to the object itself, by the form of their value.
constexpr std::string_view kOneSchema[] = {"if", "then", "else"};
constexpr std::string_view kListOfSchemas[] = {"allOf", "anyOf", "oneOf"};
constexpr std::string_view kSchemasByName[] = {"dependentSchemas", "dependencies"};
// Keywords that may allow names which are not declared.
constexpr std::string_view kOtherNames[] = {"additionalProperties", "unevaluatedProperties"};
constexpr std::string_view kUnknownSchemas[] = {"$dynamicRef", "$recursiveRef"};

// References that are followed: each may search large objects.
constexpr int kMaxReferences = 256;

// Bytes of a tag beside its name stay below 64, and tags have at most 512 (chat/dsml_scanner.h).
constexpr std::size_t kMaxNameBytes = 448;

bool IsFalse(const JsonValue& value) {
  return value.kind() == JsonValue::Kind::kBool && !value.boolean();
}

// One step of a JSON pointer, with its escapes (%HH of a URI, then ~1 and ~0) read.
std::optional<std::string> ReadPointerStep(std::string_view text) {
  std::string step;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(16 * high + low);
      i += 2;
    }
    step.push_back(c);
  }
  return UnescapedPointerStep(step);
}

const JsonValue* ItemAt(const JsonValue& array, std::string_view index) {
  const std::optional<std::size_t> i = ParseNumber<std::size_t>(index);
  return i && *i < array.items().size() ? &array.items()[*i] : nullptr;
}

// The value to which a reference such as "#/$defs/point" leads; nullptr if the reference is of
// another form or leads nowhere.
const JsonValue* Resolve(const JsonValue& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const JsonValue* value = &root;
  while (!reference.empty() && value != nullptr) {
    if (!reference.starts_with('/')) return nullptr;
    const std::size_t end = std::min(reference.find('/', 1), reference.size());
    const std::optional<std::string> step = ReadPointerStep(reference.substr(1, end - 1));
    reference.remove_prefix(end);
    if (!step) return nullptr;
    value = value->IsArray() ? ItemAt(*value, *step) : value->Find(*step);
  }
  return value;
}

// Visits schemas of a document, each once.
class SchemaWalk {
 protected:
  explicit SchemaWalk(const JsonValue& root) : root_(root) { Add(root); }

  void Add(const JsonValue& schema) {
    if (visited_.insert(&schema).second) open_.push_back(&schema);
  }
  // The next schema to visit, or nullptr.
  const JsonValue* TakeNext() {
    if (open_.empty()) return nullptr;
    const JsonValue* const next = open_.back();
    open_.pop_back();
    return next;
  }
  // Adds the schema to which a reference leads; false if there is none.
  bool Follow(std::string_view reference) {
    const JsonValue* const target =
        n_references_++ < kMaxReferences ? Resolve(root_, reference) : nullptr;
    if (target != nullptr) Add(*target);
    return target != nullptr;
  }

 private:
  const JsonValue& root_;
  std::set<const JsonValue*> visited_;
  std::vector<const JsonValue*> open_;
  int n_references_ = 0;
};

// Visits each schema that applies to the object.
class NameCollector : SchemaWalk {
 public:
  explicit NameCollector(const JsonValue& root) : SchemaWalk(root) {}

  MarkupNames Collect() {
    while (const JsonValue* const schema = TakeNext()) Visit(*schema);
    if (!has_properties_ && !is_closed_) names_.has_others = true;
    return std::move(names_);
  }

 private:
  void Declare(std::string_view name) {
    if (known_.insert(name).second) names_.declared.emplace_back(name);
  }

  void Visit(const JsonValue& schema) {
    if (!schema.IsObject()) {
      // false as an alternative allows nothing; true, or a value that is no schema, allows
      // anything.
      if (!IsFalse(schema)) names_.has_others = true;
      return;
    }
    for (std::size_t i = 0; i < schema.items().size(); ++i) {
      VisitKeyword(schema.key(i), schema.items()[i]);
    }
  }

  void VisitKeyword(std::string_view keyword, const JsonValue& value) {
    const auto is_one_of = [&](const auto& keywords) {
      return std::find(std::begin(keywords), std::end(keywords), keyword) != std::end(keywords);
    };
    if (keyword == "properties") {
      has_properties_ = true;
      for (std::size_t i = 0; i < value.items().size() && value.IsObject(); ++i) {
        Declare(value.key(i));
      }
    } else if (keyword == "required") {
      for (const JsonValue& name : value.items()) {
        if (name.IsString()) Declare(name.text());
      }
    } else if (is_one_of(kOtherNames)) {
      (IsFalse(value) ? is_closed_ : names_.has_others) = true;
    } else if (keyword == "patternProperties") {
      if (!value.items().empty()) names_.has_others = true;
    } else if (keyword == "$ref") {
      if (!value.IsString() || !Follow(value.text())) names_.has_others = true;
    } else if (is_one_of(kUnknownSchemas)) {
      names_.has_others = true;
    } else if (is_one_of(kOneSchema)) {
      if (value.IsObject()) Add(value);
    } else if (is_one_of(kListOfSchemas)) {
      for (const JsonValue& schema : value.items()) Add(schema);
    } else if (is_one_of(kSchemasByName)) {
      for (const JsonValue& schema : value.items()) {
        if (schema.IsObject()) Add(schema);
      }
    }
  }

  MarkupNames names_;
  std::set<std::string_view> known_;
  bool has_properties_ = false;
  bool is_closed_ = false;
};

// Visits each schema that holds for every object.
class RequiredCollector : SchemaWalk {
 public:
  explicit RequiredCollector(const JsonValue& root) : SchemaWalk(root) {}

  std::set<std::string_view> Collect() {
    while (const JsonValue* const schema = TakeNext()) Visit(*schema);
    return std::move(names_);
  }

 private:
  void Visit(const JsonValue& schema) {
    const JsonValue* required = schema.Find("required");
    if (required != nullptr && required->IsArray()) {
      for (const JsonValue& name : required->items()) {
        if (name.IsString()) names_.insert(name.text());
      }
    }
    const std::string_view reference = schema.FindText("$ref");
    if (!reference.empty()) Follow(reference);
    const JsonValue* all = schema.Find("allOf");
    if (all == nullptr || !all->IsArray()) return;
    for (const JsonValue& part : all->items()) Add(part);
  }

  std::set<std::string_view> names_;
};

bool IsMarkupName(std::string_view name, std::string_view dsml_text, std::string_view without) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  return name.size() <= kMaxNameBytes && std::ranges::none_of(name, is_control) &&
         name.find_first_of(without) == std::string_view::npos &&
         name.find(dsml_text) == std::string_view::npos;
}

}  // namespace

MarkupNames NamesForMarkup(const JsonValue& schema) {
  if (schema.IsNull()) return {};
  return NameCollector(schema).Collect();
}

std::set<std::string_view> RequiredInMarkup(const JsonValue& schema) {
  return RequiredCollector(schema).Collect();
}

bool IsMarkupParameterName(std::string_view name, std::string_view dsml_text) {
  return IsMarkupName(name, dsml_text, "\"");
}

bool IsMarkupToolName(std::string_view name, std::string_view dsml_text) {
  return !name.empty() && IsMarkupName(name, dsml_text, "\"<>");
}

}  // namespace fathom::constraint
