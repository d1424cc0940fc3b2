// FieldReader: reads the fields of a JSON object, each by its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "json/json_value.h"

namespace fathom::json {

// The range of a number; both ends are allowed.
struct NumberRange {
  double low;
  double high;
};

struct IntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

// Keeps the first error and continues; get the error once, at the end. A field that is absent or
// null leaves its value unchanged: null means the default, as with OpenAI. Errors
// (kInvalidArgument) begin with the path of the field: `stop[2]: expected a string, found 5`.
//
// `object` must be an object and outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(const JsonValue& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}
  // Fields that are not `known` fail: a misspelt field would otherwise silently be a default.
  FieldReader(const JsonValue& object, std::string path,
              std::initializer_list<std::string_view> known);

  // Returns the field, or nullptr if it is absent or null.
  const JsonValue* Find(std::string_view key) const;
  // Like Find, for an object; any other value fails.
  const JsonValue* FindObject(std::string_view key);
  // Like Find; an absent field fails.
  const JsonValue* Require(std::string_view key);

  // Calls read(FieldReader&) for the fields of a field that is an object.
  template <class Read>
  void ReadObject(std::string_view key, const Read& read) {
    const JsonValue* object = FindObject(key);
    if (object == nullptr) return;
    FieldReader inner(*object, PathTo(key));
    read(inner);
    if (inner.error()) Fail(*inner.error());
  }
  // Calls read(item, path) for each item of a field that is a list, until one fails; any other
  // value fails. `path` names the item from this object on.
  template <class Read>
  void ReadList(std::string_view key, std::string_view expected, const Read& read) {
    const JsonValue* list = Find(key);
    if (list != nullptr) ReadItems(*list, std::string(key), expected, read);
  }
  // Like ReadList, for a value inside a field; `path` names the value.
  template <class Read>
  void ReadItems(const JsonValue& list, const std::string& path, std::string_view expected,
                 const Read& read) {
    if (!list.IsArray()) Fail(path, expected, list);
    for (std::size_t i = 0; list.IsArray() && i < list.items().size() && !error_; ++i) {
      read(list.items()[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void ReadBool(std::string_view key, bool* value);
  // Accepts 5.0 as 5; refuses 5.5.
  void ReadInteger(std::string_view key, IntegerRange range, std::int64_t* value);
  // Refuses NaN and the infinities: they are in no range.
  void ReadNumber(std::string_view key, NumberRange range, double* value);
  void ReadString(std::string_view key, std::string* value);
  // Returns nothing if the field is absent.
  std::optional<bool> FindFlag(std::string_view key);
  // Return the field, or false and "" if it is absent.
  bool Flag(std::string_view key);
  std::string Text(std::string_view key);
  // Like Text; an empty text also fails.
  std::string RequireText(std::string_view key);
  void RequireNumber(std::string_view key, NumberRange range, double* value);
  // Like Integer, for a value inside a field; `path` names the value relative to this object.
  std::optional<std::int64_t> ToInteger(const JsonValue& value, const std::string& path,
                                        IntegerRange range);
  std::optional<double> ToNumber(const JsonValue& value, const std::string& path,
                                 NumberRange range);

  void Fail(std::string_view path, std::string_view expected, const JsonValue& found);
  // `found`: a value; nullptr: no value.
  void Fail(std::string_view path, std::string_view expected, const JsonValue* found);
  // `found`: a text.
  template <class Text, class = std::enable_if_t<std::is_convertible_v<Text, std::string_view>>>
  void Fail(std::string_view path, std::string_view expected, const Text& found) {
    FailText(path, expected, found);
  }
  void Fail(Error error);
  // Fails with kUnsupported. The message begins with the path of the field.
  template <class... Values>
  void Refuse(fmt::format_string<Values...> message, Values&&... values) {
    Fail({ErrorCode::kUnsupported, fmt::format(message, std::forward<Values>(values)...)});
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  std::string PathTo(std::string_view key) const;
  void FailText(std::string_view path, std::string_view expected, std::string_view found);

  const JsonValue& object_;
  const std::string path_;
  std::optional<Error> error_;
};

// Returns the range for an error message: "an integer from 1 to 5".
std::string ExpectedInteger(IntegerRange range);

// Returns the value for an error message: like JsonValue::Describe, but numbers with their digits.
std::string DescribeFound(const JsonValue& value);

// Parses the single object of a file. Errors (kInvalidData) name the file.
Result<JsonValue> ParseJsonObject(std::string_view text, std::string_view file_name);

}  // namespace fathom::json
