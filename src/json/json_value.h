// JsonValue: JSON as Python's json module reads it.
//
// The prompt must hold tool schemas and arguments exactly as the official encoder, a Python
// program, would print them, and a general JSON library loses what that needs: the digits of large
// integers, 1E400 (infinity in Python, an error elsewhere), NaN, the order of keys and the place of
// a repeated key. This reader keeps them, and remembers where each value stood in the source.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

// A value with everything below it. Owns its strings; independent of the source text.
struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };

  // The member of that key, or nullptr; also nullptr if this is not an object.
  const JsonValue* Find(std::string_view key) const;

  bool IsNull() const { return kind == Kind::kNull; }
  bool IsString() const { return kind == Kind::kString; }
  bool IsArray() const { return kind == Kind::kArray; }
  bool IsObject() const { return kind == Kind::kObject; }

  // Python's truth: null, false, 0, "", [] and {} are false.
  bool Truthy() const;

  // What an error message calls it: `a number`, `the string "x"` (long strings are cut), ...
  std::string Describe() const;

  Kind kind = Kind::kNull;
  bool boolean = false;           // kBool
  std::string text;               // kString: UTF-8. kInteger: its digits. kFloat: as Python's repr.
  std::vector<JsonValue> items;   // kArray: elements. kObject: the values of `keys`.
  std::vector<std::string> keys;  // kObject: a repeated key keeps its first place and last value.
  std::size_t source_begin = 0;   // bytes [source_begin, source_end) of the source text
  std::size_t source_end = 0;
};

struct ParseJsonOptions {
  int max_depth = 200;  // nested arrays and objects; deeper input is an error
  // Accept NaN, Infinity and -Infinity, as Python does; off: only what RFC 8259 allows.
  bool python_constants = true;
};

// Reads exactly one value with optional blanks around it. Errors (kInvalidData) give the byte
// offset, what was expected and what was found. Invalid UTF-8 is an error; an escaped lone
// surrogate, which Python can hold but UTF-8 cannot, becomes U+FFFD. Linear in the length of the
// text.
Result<JsonValue> ParseJson(std::string_view text, const ParseJsonOptions& options = {});

}  // namespace fathom
