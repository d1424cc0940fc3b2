#include "json/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/parse_text.h"
#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// One pass over the text. Every Read function returns false after it has set error_.
class Reader {
 public:
  Reader(std::string_view text, const ParseJsonOptions& options) : text_(text), options_(options) {}

  Result<JsonValue> ReadDocument() {
    JsonValue value;
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

  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void SkipBlanks() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }

  bool ReadValue(JsonValue* value, int depth) {
    value->source_begin = position_;
    bool ok = false;
    switch (Peek()) {
      case '{':
        ok = ReadObject(value, depth);
        break;
      case '[':
        ok = ReadArray(value, depth);
        break;
      case '"':
        value->kind = JsonValue::Kind::kString;
        ok = ReadString(&value->text);
        break;
      default:
        ok = ReadWord(value) || (!error_ && ReadNumber(value));
    }
    value->source_end = position_;
    return ok;
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
      value->kind = word.kind;
      value->boolean = word.boolean;
      if (word.python) value->text = word.text;
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
    value->kind = is_float ? JsonValue::Kind::kFloat : JsonValue::Kind::kInteger;
    value->text = is_float ? PythonFloat(digits) : std::string(digits == "-0" ? "0" : digits);
    return true;
  }

  void SkipDigits() {
    while (IsDigit(Peek())) ++position_;
  }

  bool ReadString(std::string* out) {
    ++position_;
    while (true) {
      const std::size_t begin = position_;
      while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\\' &&
             static_cast<unsigned char>(text_[position_]) >= 0x20) {
        ++position_;
      }
      const std::string_view plain = text_.substr(begin, position_ - begin);
      if (!IsValidUtf8(plain)) {
        position_ = begin;
        return Fail("valid UTF-8 in the string that follows");
      }
      out->append(plain);
      if (position_ >= text_.size()) return Fail("a closing quote");
      if (text_[position_] == '"') {
        ++position_;
        return true;
      }
      if (text_[position_] != '\\') return Fail("an escaped control character");
      if (!ReadEscape(out)) return false;
    }
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

  // At the `u` of an escape; reads a surrogate pair as one code point.
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
        position_ = after_high;  // not a pair: the second escape stands for itself
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
    value->kind = JsonValue::Kind::kArray;
    ++position_;
    SkipBlanks();
    if (Peek() == ']') {
      ++position_;
      return true;
    }
    while (true) {
      SkipBlanks();
      if (!ReadValue(&value->items.emplace_back(), depth + 1)) return false;
      SkipBlanks();
      const char next = Peek();
      if (next != ',' && next != ']') return Fail("',' or ']'");
      ++position_;
      if (next == ']') return true;
    }
  }

  bool ReadObject(JsonValue* value, int depth) {
    if (depth >= options_.max_depth) return FailDepth();
    value->kind = JsonValue::Kind::kObject;
    ++position_;
    SkipBlanks();
    if (Peek() == '}') {
      ++position_;
      return true;
    }
    std::unordered_map<std::string, std::size_t> places;
    while (true) {
      SkipBlanks();
      if (Peek() != '"') return Fail("a key in quotes");
      std::string key;
      if (!ReadString(&key)) return false;
      SkipBlanks();
      if (Peek() != ':') return Fail("':'");
      ++position_;
      SkipBlanks();
      JsonValue member;
      if (!ReadValue(&member, depth + 1)) return false;
      const auto [place, is_new] = places.emplace(key, value->items.size());
      if (is_new) {
        value->keys.push_back(std::move(key));
        value->items.push_back(std::move(member));
      } else {
        value->items[place->second] = std::move(member);
      }
      SkipBlanks();
      const char next = Peek();
      if (next != ',' && next != '}') return Fail("',' or '}'");
      ++position_;
      if (next == '}') return true;
    }
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
  ParseJsonOptions options_;
  std::size_t position_ = 0;
  std::optional<Error> error_;
};

}  // namespace

JsonValue::JsonValue(std::initializer_list<JsonElement> list) {
  const bool is_object = std::all_of(list.begin(), list.end(), [](const JsonElement& element) {
    const JsonValue& pair = element.value_;
    return pair.IsArray() && pair.items.size() == 2 && pair.items[0].IsString();
  });
  if (!is_object) {
    *this = Array(list);
    return;
  }
  kind = Kind::kObject;
  for (const JsonElement& element : list) {
    std::vector<JsonValue>& pair = element.value_.items;
    keys.push_back(std::move(pair[0].text));
    items.push_back(std::move(pair[1]));
  }
}

JsonValue JsonValue::Array(std::initializer_list<JsonElement> list) {
  JsonValue array;
  array.kind = Kind::kArray;
  array.items.reserve(list.size());
  for (const JsonElement& element : list) array.items.push_back(std::move(element.value_));
  return array;
}

JsonValue JsonValue::Object() {
  JsonValue object;
  object.kind = Kind::kObject;
  return object;
}

void JsonValue::SetFloat(double value) {
  if (!std::isfinite(value)) return;
  kind = Kind::kFloat;
  text = PythonFloat(fmt::format("{}", value));
}

JsonValue& JsonValue::operator[](std::string_view key) {
  if (IsNull()) kind = Kind::kObject;
  Check(IsObject(), "a member of a JSON value that is no object");
  if (const JsonValue* found = Find(key)) {
    return items[static_cast<std::size_t>(found - items.data())];
  }
  keys.emplace_back(key);
  return items.emplace_back();
}

void JsonValue::Update(JsonValue object) {
  for (std::size_t i = 0; i < object.keys.size(); ++i) {
    (*this)[object.keys[i]] = std::move(object.items[i]);
  }
}

void JsonValue::push_back(JsonValue value) {
  if (IsNull()) kind = Kind::kArray;
  Check(IsArray(), "an element of a JSON value that is no array");
  items.push_back(std::move(value));
}

// 5, and also 5.0: JSON knows only numbers, and some languages write whole ones so.
std::optional<std::int64_t> JsonValue::AsInteger() const {
  if (kind == Kind::kInteger) return ParseNumber<std::int64_t>(text);
  constexpr double kExact = 9007199254740992;  // 2^53: above it not every whole number is a double
  const std::optional<double> number = kind == Kind::kFloat ? AsDouble() : std::nullopt;
  if (!number || !(std::fabs(*number) <= kExact) || std::trunc(*number) != *number) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

std::optional<double> JsonValue::AsDouble() const {
  if (kind != Kind::kInteger && kind != Kind::kFloat) return std::nullopt;
  return ParseNumber<double>(text);
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::string_view JsonValue::TextOf(std::string_view key) const {
  const JsonValue* member = Find(key);
  return member != nullptr && member->IsString() ? std::string_view(member->text) : "";
}

bool JsonValue::Truthy() const {
  switch (kind) {
    case Kind::kNull:
      return false;
    case Kind::kBool:
      return boolean;
    case Kind::kInteger:
      return text != "0";
    case Kind::kFloat:
      return text != "0.0" && text != "-0.0";
    case Kind::kString:
      return !text.empty();
    case Kind::kArray:
    case Kind::kObject:
      return !items.empty();
  }
  return false;
}

std::string JsonValue::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kInteger:
    case Kind::kFloat:
      return "a number";
    case Kind::kString: {
      constexpr std::size_t kShown = 40;
      return PythonJsonString(ShortenedUtf8(text, kShown));
    }
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

Result<JsonValue> ParseJson(std::string_view text, const ParseJsonOptions& options) {
  return Reader(text, options).ReadDocument();
}

}  // namespace fathom
