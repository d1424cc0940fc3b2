// ContentForm: the form that a request demands of the content of its answer, in any of the fields
// that APIs and servers have for it. docs/spec/constrained.md section 1.1.
#pragma once

#include <string>

#include "constraint/constraint.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::api {

struct ContentForm {
  ContentConstraint constraint{};
  std::string field{};  // the field that demands the form; "": no field does
  std::string path{};   // path of the schema, the expression or the grammar, for errors
};

// Decides whether the field may omit assertions that are not supported.
enum class FormStrictness { kAsTheFieldSays, kAlways };

// Reads a format of one of the APIs, or nothing if `format` is nullptr: {"type": "text"},
// "json_object", which may have a "schema", or "json_schema", whose "schema" and "strict" are
// beside the type or in an object "json_schema". `reader` reads the body, where `field` is the
// format's path. Errors, which go to the reader: another type (kUnsupported for "structural_tag"),
// no schema, or a second form in addition to the one in `form`.
//
// A schema may have "x-fathom" at its root, which sets the layout like the field of the request.
void ReadFormat(FieldReader& reader, const JsonValue* format, const std::string& field,
                FormStrictness strictness, ContentForm* form);

// Reads a field that is "json" or a schema, as in Ollama; "" means no form. Errors as above.
void ReadJsonOrSchema(FieldReader& reader, const std::string& field, ContentForm* form);

// Reads all fields that are not a format of an API: structured_outputs and guided_* (vLLM), grammar
// and json_schema (llama.cpp), and x-fathom, which sets blanks and the order of keys. Values that
// demand nothing, such as an empty grammar, are not a form. Errors as above.
void ReadFormFields(FieldReader& reader, ContentForm* form);

}  // namespace fathom::api
