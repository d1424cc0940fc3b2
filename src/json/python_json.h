// Writes JSON as Python's json.dumps(value, ensure_ascii=False) does, byte for byte: the official
// encoder prints tool schemas, response formats and arguments that way (docs/spec/encoding.md
// section 6).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/json_value.h"

namespace fathom {

std::string PythonJson(const JsonValue& value);

// Reserializes a JSON text: json.dumps(json.loads(text), ensure_ascii=False).
Result<std::string> ReserializeLikePython(std::string_view json_text);

// A string in quotes. `text` is UTF-8.
std::string PythonJsonString(std::string_view text);

// Appends the inside of a JSON string, without quotes. A text may be divided between any two code
// points and appended piece by piece.
void AppendJsonEscaped(std::string_view text, std::string* out);

// Python's repr of the float that a JSON number denotes. `number` must be a JSON number. Shortest
// digits that round-trip, an exponent if it is below -4 or above 15, "Infinity" on overflow.
std::string PythonFloat(std::string_view number);

}  // namespace fathom
