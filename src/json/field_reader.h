// FieldReader: the fields of a JSON object, each read as what it may be.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "json/json_value.h"

namespace fathom {

// The range of a number; both ends are allowed.
struct NumberRange {
  double low;
  double high;
};

struct IntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

// Keeps the first error and goes on; ask once, at the end. A field that is absent or null leaves
// its value alone: null is the default, as OpenAI has it. Errors (kInvalidArgument) begin with the
// path of the field: `stop[2]: expected a string, found 5`.
//
// `object` must be an object and outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(const JsonValue& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  // The field, or nullptr if it is absent or null.
  const JsonValue* Find(std::string_view key) const;
  // Likewise, if it is an object; any other value fails.
  const JsonValue* FindObject(std::string_view key);

  void ReadBool(std::string_view key, bool* value);
  // 5.0 is 5; 5.5 is refused.
  void ReadInteger(std::string_view key, IntegerRange range, std::int64_t* value);
  // NaN and the infinities are in no range.
  void ReadNumber(std::string_view key, NumberRange range, double* value);
  void ReadString(std::string_view key, std::string* value);
  // Integer for a value inside a field; `path` names the value from this object on.
  std::optional<std::int64_t> IntegerOf(const JsonValue& value, const std::string& path,
                                        IntegerRange range);
  std::optional<double> NumberOf(const JsonValue& value, const std::string& path,
                                 NumberRange range);

  void Fail(std::string_view path, std::string_view expected, const JsonValue& found);
  // `found`: a text.
  template <class Text, class = std::enable_if_t<std::is_convertible_v<Text, std::string_view>>>
  void Fail(std::string_view path, std::string_view expected, const Text& found) {
    FailText(path, expected, found);
  }
  void Fail(Error error);

  const std::optional<Error>& error() const { return error_; }

 private:
  void FailText(std::string_view path, std::string_view expected, std::string_view found);

  const JsonValue& object_;
  const std::string path_;
  std::optional<Error> error_;
};

// Returns the value for an error message: JsonValue::Describe, but numbers with their digits.
std::string DescribeFound(const JsonValue& value);

}  // namespace fathom
