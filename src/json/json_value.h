// JsonValue: JSON as Python's json module reads it, and what this program writes as JSON.
//
// The prompt must hold tool schemas and arguments exactly as the official encoder, a Python
// program, would print them, and a general JSON library loses what that needs: the digits of large
// integers, 1E400 (infinity in Python, an error elsewhere), NaN, the order of keys and the place of
// a repeated key. ParseJson keeps all of that and the place of each value in the source text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fathom {

class JsonElement;

// A value with everything below it. Owns its strings; independent of the source text.
//
// Bodies are written as braced lists: JsonValue usage = {{"tokens", 5}, {"details", {{"n", 1}}}}.
// A list whose elements are all pairs that begin with a text is an object; every other list is an
// array. Hence a list that may look like an object is written JsonValue::Array({...}).
struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };

  JsonValue() = default;
  JsonValue(std::nullptr_t) {}
  JsonValue(std::string string) : kind(Kind::kString), text(std::move(string)) {}
  JsonValue(std::string_view string) : JsonValue(std::string(string)) {}
  JsonValue(const char* string) : JsonValue(std::string(string)) {}
  // NaN and the infinities, for which JSON has no number, become null.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  JsonValue(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      kind = Kind::kBool;
      boolean = value;
    } else if constexpr (std::is_integral_v<T>) {
      kind = Kind::kInteger;
      text = std::to_string(value);
    } else {
      SetFloat(value);
    }
  }
  template <class T>
  JsonValue(const std::vector<T>& list) : kind(Kind::kArray), items(list.begin(), list.end()) {}
  JsonValue(std::initializer_list<JsonElement> list);
  static JsonValue Array(std::initializer_list<JsonElement> list = {});
  static JsonValue Object();

  // The member of that key, or nullptr; also nullptr if this is not an object.
  const JsonValue* Find(std::string_view key) const;
  // The member of that key if it is a string, or "".
  std::string_view TextOf(std::string_view key) const;

  // The member of that key, appended if it is new. This must be an object, or null, which becomes
  // an empty object.
  JsonValue& operator[](std::string_view key);
  // Sets every member of another object.
  void Update(JsonValue object);
  // Appends to an array; null becomes an empty array.
  void push_back(JsonValue value);

  // The number, where this is one that the type holds: 5.0 is the integer 5, and 1e400 no double.
  std::optional<std::int64_t> AsInteger() const;
  std::optional<double> AsDouble() const;

  bool IsNull() const { return kind == Kind::kNull; }
  bool IsString() const { return kind == Kind::kString; }
  bool IsArray() const { return kind == Kind::kArray; }
  bool IsObject() const { return kind == Kind::kObject; }

  // Returns the JSON text that the value was read from; `source` is the whole text.
  std::string_view SourceIn(std::string_view source) const {
    return source.substr(source_begin, source_end - source_begin);
  }

  // Python's truth: null, false, 0, "", [] and {} are false.
  bool Truthy() const;

  // Returns the value for an error message: `a number`, `the string "x"` (long strings are cut),
  // ...
  std::string Describe() const;

  Kind kind = Kind::kNull;
  bool boolean = false;           // kBool
  std::string text;               // kString: UTF-8. kInteger: its digits. kFloat: as Python's repr.
  std::vector<JsonValue> items;   // kArray: elements. kObject: the values of `keys`.
  std::vector<std::string> keys;  // kObject: a repeated key keeps its first place and last value.
  std::size_t source_begin = 0;   // bytes [source_begin, source_end) of the source text
  std::size_t source_end = 0;

 private:
  void SetFloat(double value);
};

// An element of a braced list, whose value moves into the list's JsonValue.
class JsonElement {
 public:
  template <class T, class = std::enable_if_t<std::is_constructible_v<JsonValue, T>>>
  JsonElement(T&& value) : value_(std::forward<T>(value)) {}
  JsonElement(std::initializer_list<JsonElement> list) : value_(list) {}

 private:
  friend struct JsonValue;
  mutable JsonValue value_;  // elements of an initializer_list are const
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
