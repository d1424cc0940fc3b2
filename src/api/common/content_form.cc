#include "api/common/content_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace fathom::api {
namespace {

using FormKind = ContentConstraint::Kind;

constexpr std::string_view kLayoutField = "x-fathom";

struct WhitespaceName {
  std::string_view name;
  JsonWhitespace value;
};
constexpr WhitespaceName kWhitespaces[] = {{"flex", JsonWhitespace::kFlexible},
                                           {"compact", JsonWhitespace::kCompact},
                                           {"python", JsonWhitespace::kPython},
                                           {"any", JsonWhitespace::kAny}};

void ReadLayoutFields(FieldReader& fields, JsonLayout* layout) {
  const std::string whitespace = fields.Text("whitespace");
  const auto* known = std::ranges::find(kWhitespaces, whitespace, &WhitespaceName::name);
  if (known != std::end(kWhitespaces)) {
    layout->whitespace = known->value;
  } else if (fields.Find("whitespace") != nullptr) {
    fields.Fail("whitespace", "flex, compact, python or any", fields.Find("whitespace"));
  }
  const std::string order = fields.Text("key_order");
  if (order == "schema" || order == "any") {
    layout->key_order = order == "any" ? JsonKeyOrder::kAny : JsonKeyOrder::kSchema;
  } else if (fields.Find("key_order") != nullptr) {
    fields.Fail("key_order", "schema or any", fields.Find("key_order"));
  }
}

// Reads {"whitespace": ..., "key_order": ...}. `path` names it relative to the reader's object.
void ReadLayout(FieldReader& reader, const JsonValue* value, const std::string& path,
                JsonLayout* layout) {
  if (value == nullptr || value->IsNull()) return;
  if (!value->IsObject()) return reader.Fail(path, "an object", *value);
  FieldReader fields(*value, path, {"whitespace", "key_order"});
  ReadLayoutFields(fields, layout);
  if (fields.error()) reader.Fail(*fields.error());
}

// Returns the schema without its own layout, which replaces the layout of the request.
JsonValue TakeLayout(FieldReader& reader, const JsonValue& schema, const std::string& path,
                     JsonLayout* layout) {
  const JsonValue* own = schema.Find(kLayoutField);
  if (own == nullptr) return schema;
  ReadLayout(reader, own, fmt::format("{}.{}", path, kLayoutField), layout);
  JsonValue rest = JsonValue::Object();
  for (std::size_t i = 0; i < schema.items().size(); ++i) {
    if (schema.key(i) != kLayoutField) rest.Add(schema.key(i), schema.items()[i]);
  }
  return rest;
}

// Returns a value that is true or false; false if it is absent.
bool ReadOptionalBool(FieldReader& reader, const JsonValue* value, const std::string& path) {
  if (value == nullptr) return false;
  if (value->kind() != JsonValue::Kind::kBool) reader.Fail(path, "true or false", *value);
  return value->boolean();
}

// Sets the form of an answer; an error if there is one already.
void SetForm(FieldReader& reader, const std::string& field, std::string path,
             ContentConstraint constraint, ContentForm* form) {
  if (!form->field.empty()) {
    reader.Fail(field, "one form of the answer", fmt::format("{} as well", form->field));
    return;
  }
  constraint.layout = form->constraint.layout;
  *form = {.constraint = std::move(constraint), .field = field, .path = std::move(path)};
}

// Sets a schema, which some clients write as a string.
void SetSchema(FieldReader& reader, const std::string& field, const std::string& path,
               const JsonValue* schema, bool strict, ContentForm* form) {
  std::optional<JsonValue> parsed;
  if (schema != nullptr && schema->IsString()) {
    Result<JsonValue> json = ParseJson(schema->text());
    if (!json) {
      return reader.Fail({json.error().code, fmt::format("{}: {}", path, json.error().message)});
    }
    parsed = *std::move(json);
    schema = &*parsed;
  }
  if (schema == nullptr || (!schema->IsObject() && schema->kind() != JsonValue::Kind::kBool)) {
    return reader.Fail(path, "a JSON schema", schema);
  }
  SetForm(reader, field, path,
          {.kind = FormKind::kJsonSchema, .strict = strict, .closed_objects = strict}, form);
  if (reader.error()) return;
  form->constraint.schema = TakeLayout(reader, *schema, path, &form->constraint.layout);
}

void SetText(FieldReader& reader, const std::string& field, const std::string& path, FormKind kind,
             const JsonValue& text, ContentForm* form) {
  if (!text.IsString()) return reader.Fail(path, "a string", text);
  if (text.text().empty()) return;  // llama.cpp's clients send an empty grammar
  SetForm(reader, field, path, {.kind = kind, .text = std::string(text.text())}, form);
}

void SetChoice(FieldReader& reader, const std::string& field, const std::string& path,
               const JsonValue& list, ContentForm* form) {
  std::vector<std::string> choices;
  reader.ReadItems(list, path, "a list of strings",
                   [&](const JsonValue& choice, const std::string& place) {
                     if (!choice.IsString()) return reader.Fail(place, "a string", choice);
                     choices.emplace_back(choice.text());
                   });
  if (reader.error() || choices.empty()) return;
  SetForm(reader, field, path, {.kind = FormKind::kChoice, .choices = std::move(choices)}, form);
}

constexpr std::string_view kNoStructuralTag =
    "structural tags are not supported; strict tools and json_schema are";

// Sets a form of one of vLLM's kinds. `name`: "json", ...; `path`: the path of the value.
void SetKind(FieldReader& reader, std::string_view name, const std::string& field,
             const std::string& path, const JsonValue& value, ContentForm* form) {
  if (name == "json") {
    SetSchema(reader, field, path, &value, false, form);
  } else if (name == "json_object") {
    if (ReadOptionalBool(reader, &value, path))
      SetForm(reader, field, path, {.kind = FormKind::kJsonObject}, form);
  } else if (name == "regex") {
    SetText(reader, field, path, FormKind::kRegex, value, form);
  } else if (name == "choice") {
    SetChoice(reader, field, path, value, form);
  } else if (name == "grammar") {
    SetText(reader, field, path, FormKind::kGbnf, value, form);
  } else if (value.Truthy()) {
    reader.Refuse("{}: {}", path, name == "structural_tag" ? kNoStructuralTag : "not supported");
  }
}

constexpr std::string_view kKinds[] = {"json",
                                       "json_object",
                                       "regex",
                                       "choice",
                                       "grammar",
                                       "structural_tag",
                                       "whitespace_pattern",
                                       "disable_additional_properties"};

// Reads structured_outputs. Its other members choose among the libraries of vLLM.
void ReadStructuredOutputs(FieldReader& reader, ContentForm* form) {
  const std::string field = "structured_outputs";
  const JsonValue* outputs = reader.FindObject(field);
  if (outputs == nullptr) return;
  const FieldReader members(*outputs);
  if (ReadOptionalBool(reader, members.Find("disable_any_whitespace"),
                       field + ".disable_any_whitespace")) {
    form->constraint.layout.whitespace = JsonWhitespace::kCompact;
  }
  for (const std::string_view name : kKinds) {
    const JsonValue* value = members.Find(name);
    if (value == nullptr) continue;
    SetKind(reader, name, field, fmt::format("{}.{}", field, name), *value, form);
  }
}

}  // namespace

void ReadFormat(FieldReader& reader, const JsonValue* format, const std::string& field,
                FormStrictness strictness, ContentForm* form) {
  if (format == nullptr || format->IsNull()) return;
  const JsonValue* type = format->Find("type");
  if (type == nullptr || !type->IsString())
    return reader.Fail(field, "an object with a type", *format);
  const std::string_view name = type->text();
  const JsonValue* beside = format->Find("schema");
  if (name == "json_schema" || (name == "json_object" && beside != nullptr && !beside->IsNull())) {
    const JsonValue* inner = name == "json_schema" ? format->Find("json_schema") : nullptr;
    const bool is_inner = inner != nullptr && inner->IsObject();
    const FieldReader members(is_inner ? *inner : *format);
    const std::string path = field + (is_inner ? ".json_schema" : "");
    const bool is_strict = ReadOptionalBool(reader, members.Find("strict"), path + ".strict") ||
                           strictness == FormStrictness::kAlways;
    SetSchema(reader, field, path + ".schema", members.Find("schema"), is_strict, form);
  } else if (name == "json_object") {
    SetForm(reader, field, field, {.kind = FormKind::kJsonObject}, form);
  } else if (name == "structural_tag") {
    reader.Refuse("{}: {}", field, kNoStructuralTag);
  } else if (name != "text") {
    reader.Fail(fmt::format("{}.type", field), "text, json_object or json_schema", *type);
  }
}

void ReadJsonOrSchema(FieldReader& reader, const std::string& field, ContentForm* form) {
  const JsonValue* value = reader.Find(field);
  if (value == nullptr || (value->IsString() && value->text().empty())) return;
  if (value->IsString() && value->text() == "json") {
    SetForm(reader, field, field, {.kind = FormKind::kJsonObject}, form);
  } else if (value->IsObject()) {
    SetSchema(reader, field, field, value, false, form);
  } else {
    reader.Fail(field, "json or a JSON schema", *value);
  }
}

void ReadFormFields(FieldReader& reader, ContentForm* form) {
  ReadLayout(reader, reader.Find(kLayoutField), std::string(kLayoutField),
             &form->constraint.layout);
  ReadStructuredOutputs(reader, form);
  struct Field {
    std::string_view field;
    std::string_view kind;
  };
  for (const auto& [field, kind] :
       {Field{"guided_json", "json"}, Field{"guided_json_object", "json_object"},
        Field{"guided_regex", "regex"}, Field{"guided_choice", "choice"},
        Field{"guided_grammar", "grammar"}, Field{"guided_whitespace_pattern", ""},
        Field{"structural_tag", "structural_tag"}, Field{"grammar", "grammar"},
        Field{"json_schema", "json"}}) {
    const JsonValue* value = reader.Find(field);
    if (value != nullptr) {
      SetKind(reader, kind, std::string(field), std::string(field), *value, form);
    }
  }
}

}  // namespace fathom::api
