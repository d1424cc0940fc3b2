// Writes JSON: on one line, indented, in a canonical form, and in Python's form.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/json_value.h"

namespace fathom::json {

// Writes JSON without blanks on one line, or with `indent` blanks per level and every element on
// its own line. Numbers keep the digits of their source. Broken UTF-8 becomes U+FFFD.
std::string WriteJson(const JsonValue& value, int indent = 0);

// Returns one text for all spellings of a value: without blanks, keys in the order of their bytes,
// whole numbers without fraction and exponent (up to 2^53, the limit of clients that know only
// doubles): {"b": 1.0, "a": "\u0041"} is {"a":"A","b":1}. Two values are equal if and only if their
// texts are equal.
std::string CanonicalJson(const JsonValue& value);

// Writes Python's json.dumps(value, ensure_ascii=False), byte for byte: the official encoder prints
// tool schemas, response formats and arguments in this form (docs/spec/encoding.md section 6).
std::string PythonJson(const JsonValue& value);

// Reserializes a JSON text: json.dumps(json.loads(text), ensure_ascii=False).
Result<std::string> ReserializeLikePython(std::string_view json_text);

// Returns a string in quotes. `text` must be UTF-8.
std::string PythonJsonString(std::string_view text);

// Appends the inside of a JSON string, without quotes. A text may be divided between any two code
// points and appended piece by piece.
void AppendJsonEscaped(std::string_view text, std::string* out);

// Returns Python's repr of the float that a JSON number denotes. `number` must be a JSON number.
// Shortest digits that round-trip, an exponent if it is below -4 or above 15, "Infinity" on
// overflow.
std::string PythonFloat(std::string_view number);

}  // namespace fathom::json
