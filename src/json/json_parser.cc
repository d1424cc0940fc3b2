#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/parse_text.h"
#include "base/utf8.h"
#include "json/json_shape.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::json {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the heap memory of an allocation of `bytes` bytes: glibc adds 8 and rounds up to 16.
constexpr std::uint64_t HeapBytes(std::uint64_t bytes) {
  constexpr std::uint64_t kRound = 16;
  return (bytes + 8 + kRound - 1) / kRound * kRound;
}

}  // namespace

// Makes one pass over the text, after one for its shape. Every Read function returns false after it
// has set error_. A separate class, because it writes the parts of a JsonValue that others only
// read.
class JsonParser {
 public:
  JsonParser(std::string_view text, const ParseJsonOptions& options)
      : text_(text),
        options_(options),
        stop_(options.stop),
        max_bytes_(MaxJsonBytes(text.size())) {}

  Result<JsonValue> ReadDocument() {
    JsonValue value;
    if (!ReadShape()) return Unexpected(*error_);
    SkipBlanks();
    if (!ReadValue(&value, 0)) return Unexpected(*error_);
    SkipBlanks();
    if (position_ != text_.size()) {
      Fail("the end of the text");
      return Unexpected(*error_);
    }
    return value;
  }

 private:
  bool Fail(std::string_view expected) {
    const std::string found =
        position_ >= text_.size()
            ? "the end of the text"
            : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text_[position_]));
    error_ = Error{ErrorCode::kInvalidData,
                   fmt::format("JSON, byte {}: expected {}, found {}", position_, expected, found)};
    return false;
  }

  bool FailSize(std::string_view more) {
    error_ = Error{ErrorCode::kTooLarge,
                   fmt::format("JSON of {} bytes: expected values that take at most {} bytes of "
                               "memory, found {}{}",
                               text_.size(), max_bytes_, bytes_, more)};
    return false;
  }

  bool FailStopped() {
    error_ = Error{ErrorCode::kUnavailable, "JSON: reading was stopped"};
    return false;
  }

  // Counts bytes on the heap before they are allocated.
  bool Charge(std::uint64_t bytes) {
    bytes_ += bytes;
    return bytes_ <= max_bytes_ || FailSize(" or more");
  }

  // Counts the lists of all arrays and objects before the first is allocated.
  bool ReadShape() {
    if (text_.size() > std::numeric_limits<std::uint32_t>::max()) {
      bytes_ = text_.size();
      return FailSize(" or more");
    }
    std::optional<JsonShape> shape = ReadJsonShape(text_, options_.max_depth, options_.stop);
    if (!shape) return FailStopped();
    shape_ = *std::move(shape);
    constexpr std::uint64_t kNumber = sizeof(std::uint32_t);
    // A list has a multiple of 16 bytes, and a header.
    const std::uint64_t lists = shape_.n_items.size() * (HeapBytes(8) + kNumber);
    const std::uint64_t values = (shape_.n_values + shape_.n_keys) * sizeof(JsonValue);
    return Charge(lists + values + shape_.most_keys * kNumber);
  }

  // Reserves nothing if the text ends in an error before the first item.
  void ReserveItems(JsonValue* list) {
    if (shape_.n_items.empty()) return;
    list->Reserve(shape_.n_items.front());
    shape_.n_items.pop_front();
  }

  bool SetText(JsonValue::Kind kind, std::string_view text, JsonValue* value) {
    constexpr std::uint64_t kHead = 8;
    if (text.size() > JsonValue::kInside && !Charge(HeapBytes(kHead + text.size()))) return false;
    value->SetText(kind, text);
    return true;
  }

  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void SkipBlanks() {
    while (true) {
      const char c = Peek();
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
      ++position_;
    }
  }

  bool ReadValue(JsonValue* value, int depth) {
    if (stop_.IsStopped(position_)) return FailStopped();
    value->source_begin_ = static_cast<std::uint32_t>(position_);
    const char first = Peek();
    if (first == '{') return ReadObject(value, depth);
    if (first == '[') return ReadArray(value, depth);
    if (first == '"') return ReadString(value);
    if (!IsDigit(first) && ReadWord(value)) return true;
    return ReadNumber(value);
  }

  bool ReadWord(JsonValue* value) {
    struct Word {
      std::string_view text;
      JsonValue::Kind kind;
      bool boolean;
      bool python;
    };
    using Kind = JsonValue::Kind;
    constexpr Word kWords[] = {
        {"null", Kind::kNull, false, false},     {"true", Kind::kBool, true, false},
        {"false", Kind::kBool, false, false},    {"NaN", Kind::kFloat, false, true},
        {"Infinity", Kind::kFloat, false, true}, {"-Infinity", Kind::kFloat, false, true}};
    for (const Word& word : kWords) {
      if (text_.substr(position_, word.text.size()) != word.text) continue;
      if (word.python && !options_.python_constants) continue;
      if (word.kind == Kind::kFloat) value->SetText(word.kind, word.text);
      if (word.kind == Kind::kBool) value->SetBool(word.boolean);
      position_ += word.text.size();
      return true;
    }
    return false;
  }

  bool ReadNumber(JsonValue* value) {
    const std::size_t begin = position_;
    if (Peek() == '-') ++position_;
    if (!IsDigit(Peek())) return Fail("a value");
    if (Peek() == '0') {
      ++position_;
    } else {
      SkipDigits();
    }
    bool is_float = false;
    if (Peek() == '.') {
      ++position_;
      if (!IsDigit(Peek())) return Fail("a digit");
      SkipDigits();
      is_float = true;
    }
    if (Peek() == 'e' || Peek() == 'E') {
      ++position_;
      if (Peek() == '+' || Peek() == '-') ++position_;
      if (!IsDigit(Peek())) return Fail("a digit");
      SkipDigits();
      is_float = true;
    }
    const std::string_view digits = text_.substr(begin, position_ - begin);
    if (is_float) return SetText(JsonValue::Kind::kFloat, digits, value);
    return SetText(JsonValue::Kind::kInteger, digits == "-0" ? "0" : digits, value);
  }

  void SkipDigits() {
    while (IsDigit(Peek())) ++position_;
  }

  bool ReadString(JsonValue* value) {
    const std::size_t begin = ++position_;
    std::string_view plain;
    if (!ReadPlain(&plain)) return false;
    if (text_[position_] == '"') {
      ++position_;
      return SetText(JsonValue::Kind::kString, plain, value);
    }
    const std::size_t longest = FindClosingQuote(text_, begin) - begin;
    if (longest > unescaped_.capacity()) {
      if (!Charge(longest)) return false;
      unescaped_ = std::string();  // both together would exceed the charge
      unescaped_.reserve(longest);
    }
    unescaped_ = plain;
    while (text_[position_] == '\\') {
      if (!ReadEscape(&unescaped_) || !ReadPlain(&plain)) return false;
      unescaped_ += plain;
    }
    ++position_;
    return SetText(JsonValue::Kind::kString, unescaped_, value);
  }

  // Reads up to a quote or a backslash.
  bool ReadPlain(std::string_view* plain) {
    const std::size_t begin = position_;
    while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\\' &&
           static_cast<unsigned char>(text_[position_]) >= 0x20) {
      ++position_;
    }
    *plain = text_.substr(begin, position_ - begin);
    if (!IsValidUtf8(*plain)) {
      position_ = begin;
      return Fail("valid UTF-8 in the string that follows");
    }
    if (position_ >= text_.size()) return Fail("a closing quote");
    if (text_[position_] == '"' || text_[position_] == '\\') return true;
    return Fail("an escaped control character");
  }

  bool ReadEscape(std::string* out) {
    ++position_;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char name = Peek();
    if (name == 'u') return ReadUnicodeEscape(out);
    const std::size_t index = kNames.find(name);
    if (index == std::string_view::npos || position_ >= text_.size()) return Fail("an escape");
    out->push_back(kMeanings[index]);
    ++position_;
    return true;
  }

  // Starts at the `u` of an escape; reads a surrogate pair as one code point.
  bool ReadUnicodeEscape(std::string* out) {
    std::uint32_t code = 0;
    if (!ReadFourHexDigits(&code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(position_, 2) == "\\u") {
      const std::size_t after_high = position_;
      ++position_;
      std::uint32_t low = 0;
      if (!ReadFourHexDigits(&low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        position_ = after_high;  // not a pair: the second escape is read separately
      }
    }
    AppendUtf8(code, *out);
    return true;
  }

  bool ReadFourHexDigits(std::uint32_t* code) {
    ++position_;
    for (int i = 0; i < 4; ++i, ++position_) {
      const int digit = HexDigit(Peek());
      if (digit < 0) return Fail("a hexadecimal digit");
      *code = *code * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool ReadArray(JsonValue* value, int depth) {
    if (depth >= options_.max_depth) return FailDepth();
    value->kind_ = JsonValue::Kind::kArray;
    ++position_;
    SkipBlanks();
    if (Peek() == ']') {
      ++position_;
      return true;
    }
    ReserveItems(value);
    while (true) {
      SkipBlanks();
      if (!ReadValue(&value->Append(), depth + 1)) return false;
      SkipBlanks();
      const char next = Peek();
      if (next != ',' && next != ']') return Fail("',' or ']'");
      ++position_;
      if (next == ']') return true;
    }
  }

  bool ReadObject(JsonValue* value, int depth) {
    if (depth >= options_.max_depth) return FailDepth();
    value->kind_ = JsonValue::Kind::kObject;
    ++position_;
    SkipBlanks();
    if (Peek() == '}') {
      ++position_;
      return true;
    }
    ReserveItems(value);
    while (true) {
      SkipBlanks();
      if (Peek() != '"') return Fail("a key in quotes");
      JsonValue key;
      if (!ReadString(&key)) return false;
      SkipBlanks();
      if (Peek() != ':') return Fail("':'");
      ++position_;
      SkipBlanks();
      if (!ReadValue(&value->Append(std::move(key)), depth + 1)) return false;
      SkipBlanks();
      const char next = Peek();
      if (next != ',' && next != '}') return Fail("',' or '}'");
      ++position_;
      if (next == '}') break;
    }
    value->MergeRepeatedKeys();
    return true;
  }

  bool FailDepth() {
    error_ =
        Error{ErrorCode::kInvalidData,
              fmt::format("JSON, byte {}: expected at most {} nested arrays and objects, found "
                          "more",
                          position_, options_.max_depth)};
    return false;
  }

  std::string_view text_;
  const ParseJsonOptions& options_;
  StopCheck stop_;
  const std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 4096;  // charged so far; initially the parser's own memory
  JsonShape shape_;             // shape of the lists that are not read yet
  std::string unescaped_;       // the last string with escapes
  std::size_t position_ = 0;
  std::optional<Error> error_;
};

Result<JsonValue> ParseJson(std::string_view text, const ParseJsonOptions& options) {
  return JsonParser(text, options).ReadDocument();
}

std::uint64_t MaxJsonBytes(std::size_t text_bytes) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  return std::min(8 * std::uint64_t{text_bytes} + kMiB,
                  std::max(4 * std::uint64_t{text_bytes}, 256 * kMiB));
}

}  // namespace fathom::json
