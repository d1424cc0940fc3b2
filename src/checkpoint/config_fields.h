// ConfigFields: reads typed fields of a JSON object and records all errors in them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "json/json_value.h"

namespace fathom::checkpoint {

// Owns the parsed text; one thread. Names are paths: "rope_scaling.factor" is a field of a field. A
// field that is null counts as missing. A field that is missing without a fallback, of the wrong
// type or out of range is a problem; reading continues with 0 or an empty value in its place.
class ConfigFields {
 public:
  template <class T>
  struct Range {
    T lowest;
    T highest;
  };

  // Errors: not JSON, not an object, longer than 16 MiB.
  static Result<ConfigFields> Parse(std::string_view text, std::string_view file_name);

  bool Has(std::string_view name) const;
  // Returns nullptr if the field is missing or null. The result is valid as long as this object.
  const JsonValue* Find(std::string_view name) const;
  // Returns an integer field; 4096.0 and "4096" are not integers.
  std::int64_t Integer(std::string_view name, Range<std::int64_t> range,
                       std::optional<std::int64_t> fallback = std::nullopt);
  float Number(std::string_view name, Range<float> range,
               std::optional<float> fallback = std::nullopt);
  // Returns a list of 1 to `longest` integers; empty after a problem.
  std::vector<std::int64_t> Integers(std::string_view name, Range<std::int64_t> range,
                                     std::int64_t longest);
  // Returns the fields of the object itself that are integers or lists of integers.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> AllIntegers() const;
  // Returns the index in `known` of the field's text, if the field is present and valid.
  std::optional<std::size_t> Choice(std::string_view name,
                                    std::initializer_list<std::string_view> known);
  // Records a problem if the field is present and differs from `only`.
  void Require(std::string_view name, bool only);

  // Returns the value for a message; "nothing" if the field is missing.
  std::string Describe(std::string_view name) const;
  // Returns the text, if the field is text.
  std::optional<std::string> Text(std::string_view name) const;

  // Records a problem that the caller found: "name: expected ..., found ...".
  void AddProblem(std::string_view name, std::string_view expected, std::string_view found);
  std::span<const Error> problems() const { return problems_; }

 private:
  explicit ConfigFields(JsonValue root) : root_(std::move(root)) {}

  JsonValue root_;
  std::vector<Error> problems_;
};

}  // namespace fathom::checkpoint
