// JsonValue: JSON as Python's json module reads it, and the JSON that this program writes.
//
// The prompt must contain tool schemas and arguments exactly as the official encoder, a Python
// program, would print them. A general JSON library loses the necessary details: the digits of
// large integers, 1E400 (infinity in Python, an error elsewhere), NaN, the order of keys and the
// place of a repeated key. ParseJson keeps all of them and the place of each value in the source
// text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/stop_check.h"

namespace fathom::json {

class JsonElement;

// A value with everything below it. Owns its texts; independent of the source text. Takes 16 bytes,
// so that a parsed text stays small: texts of up to 10 bytes are stored inside the value, longer
// texts and the items of arrays and objects on the heap. The views that text(), key() and items()
// return are valid until the value is changed, moved or destroyed.
//
// Bodies are written as braced lists: JsonValue usage = {{"tokens", 5}, {"details", {{"n", 1}}}}. A
// list whose elements are all pairs that begin with a text is an object; every other list is an
// array. So an array that could be read as an object is written JsonValue::Array({...}).
class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };

  JsonValue() = default;
  JsonValue(std::nullptr_t) {}
  JsonValue(std::string_view string) { SetText(Kind::kString, string); }
  JsonValue(const std::string& string) : JsonValue(std::string_view(string)) {}
  JsonValue(const char* string) : JsonValue(std::string_view(string)) {}
  // Converts a number. NaN and the infinities, for which JSON has no number, become null.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  JsonValue(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      SetBool(value);
    } else if constexpr (std::is_integral_v<T>) {
      SetText(Kind::kInteger, std::to_string(value));
    } else {
      SetFloat(value);
    }
  }
  template <class T>
  JsonValue(const std::vector<T>& list) : kind_(Kind::kArray) {
    Reserve(list.size());
    for (const T& element : list) Append() = JsonValue(element);
  }
  JsonValue(std::initializer_list<JsonElement> list);
  static JsonValue Array(std::initializer_list<JsonElement> list = {});
  static JsonValue Object();

  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept { Swap(other); }
  JsonValue& operator=(JsonValue other) noexcept {
    Swap(other);
    return *this;
  }
  ~JsonValue() {
    if (heap() != nullptr) Free();
  }

  Kind kind() const { return kind_; }
  // kBool: returns the value; otherwise false.
  bool boolean() const { return kind_ == Kind::kBool && inside_[0] != 0; }
  // kString: returns UTF-8. kInteger, kFloat: as written in the source, or Python's repr of a
  // double. Otherwise "".
  std::string_view text() const {
    return inside_bytes_ == kOnHeap ? HeapText() : std::string_view(inside_, inside_bytes_);
  }
  // kArray: returns the elements. kObject: the values of the members. Otherwise nothing.
  std::span<const JsonValue> items() const { return {Items(), n_items()}; }
  std::span<JsonValue> items() { return {Items(), n_items()}; }
  // Returns the key of items()[i] of an object.
  std::string_view key(std::size_t i) const { return Keys()[i].text(); }

  // Returns the member with that key, or nullptr; also nullptr if this is not an object. Linear in
  // the number of members.
  const JsonValue* Find(std::string_view key) const;
  // Returns the member with that key if it is a string, or "".
  std::string_view FindText(std::string_view key) const;

  // Returns the member with that key, appended if it is new; linear in the number of members. This
  // value must be an object, or null, which becomes an empty object.
  JsonValue& operator[](std::string_view key);
  // Appends a member. This value must be an object without that key.
  void Add(std::string_view key, JsonValue value) { Append(JsonValue(key)) = std::move(value); }
  // Sets every member of another object. O(n log n).
  void Update(JsonValue object);
  // Appends to an array; null becomes an empty array.
  void push_back(JsonValue value);

  // Returns the number if the type can represent it: 5.0 is the integer 5, and 1e400 is not a
  // double.
  std::optional<std::int64_t> AsInteger() const;
  std::optional<double> AsDouble() const;

  bool IsNull() const { return kind_ == Kind::kNull; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsArray() const { return kind_ == Kind::kArray; }
  bool IsObject() const { return kind_ == Kind::kObject; }

  // Returns the JSON text from which the value was read; `source` is the whole text. Linear in the
  // length of the result.
  std::string_view SourceIn(std::string_view source) const;

  // Returns Python's truth value: null, false, 0, "", [] and {} are false.
  bool Truthy() const;

  // Returns the value for an error message: `a number`, `the string "x"` (long strings are cut),
  // ...
  std::string Describe() const;

 private:
  friend class JsonParser;
  struct Block;  // heap memory of a value

  static constexpr std::size_t kInside = 10;  // bytes of text inside the value
  static constexpr std::uint8_t kOnHeap = kInside + 1;
  // Objects with at most this many members are searched for repeated keys without sorting.
  static constexpr std::size_t kFewMembers = 16;

  void SetBool(bool value) {
    kind_ = Kind::kBool;
    inside_[0] = value ? 1 : 0;
  }
  // `kind` must have a text; this value must be null.
  void SetText(Kind kind, std::string_view text);
  void SetFloat(double value);

  // Appends null, with the key if this is an object. This value must be an array or an object.
  JsonValue& Append();
  JsonValue& Append(JsonValue key);
  void Reserve(std::size_t n_items);
  // Keeps each key once, at its first place and with its last value. O(n log n).
  void MergeRepeatedKeys();
  bool HasRepeatedKey() const;

  // Returns nullptr if the value has no heap memory.
  Block* heap() const {
    if (inside_bytes_ != kOnHeap && kind_ < Kind::kArray) return nullptr;
    Block* block = nullptr;
    std::memcpy(&block, inside_ + kInside - sizeof(block), sizeof(block));
    return block;
  }
  void set_heap(Block* block) {
    std::memcpy(inside_ + kInside - sizeof(block), &block, sizeof(block));
  }
  std::string_view HeapText() const;
  std::size_t n_items() const;
  JsonValue* Items() const;
  JsonValue* Keys() const;
  void Swap(JsonValue& other) noexcept;
  void Free();

  alignas(8) std::uint32_t source_begin_ = 0;  // where the value begins in the source text
  Kind kind_ = Kind::kNull;
  // Bytes of the text in inside_, or kOnHeap. Arrays and objects: 0.
  std::uint8_t inside_bytes_ = 0;
  // A text, a boolean, or in its last bytes the pointer to a Block; nullptr is possible for arrays
  // and objects.
  char inside_[kInside] = {};
};

static_assert(sizeof(JsonValue) == 16);

// An element of a braced list, whose value moves into the list's JsonValue.
class JsonElement {
 public:
  template <class T, class = std::enable_if_t<std::is_constructible_v<JsonValue, T>>>
  JsonElement(T&& value) : value_(std::forward<T>(value)) {}
  JsonElement(std::initializer_list<JsonElement> list) : value_(list) {}

 private:
  friend class JsonValue;
  mutable JsonValue value_;  // elements of an initializer_list are const
};

struct ParseJsonOptions {
  int max_depth = 200;  // nested arrays and objects; deeper input is an error
  // Accept NaN, Infinity and -Infinity, as Python does; off: only what RFC 8259 allows.
  bool python_constants = true;
  // Called about every 64 KiB; true ends the reading with kUnavailable. May be empty.
  StopFunction stop{};
};

// Reads exactly one value with optional blanks around it. Errors (kInvalidData) give the byte
// offset, what was expected and what was found. Invalid UTF-8 is an error; an escaped lone
// surrogate, which Python can hold but UTF-8 cannot, becomes U+FFFD. O(n log n) in the length of
// the text, whatever its keys are.
//
// Limits the memory of parsing and of the value (kTooLarge) by MaxJsonBytes; texts above 4 GiB are
// too large as well.
Result<JsonValue> ParseJson(std::string_view text, const ParseJsonOptions& options = {});

// Returns the bytes of memory that a text of text_bytes may take as a JsonValue: 8 per byte and 1
// MiB, but beyond 256 MiB only 4 per byte. No list of numbers needs more than 8 per byte; chats
// take far less than 4.
std::uint64_t MaxJsonBytes(std::size_t text_bytes);

}  // namespace fathom::json
