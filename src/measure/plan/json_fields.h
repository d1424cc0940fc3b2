// Fields of a file that describes something: all of them known, some of them necessary.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::plan {

// A FieldReader (whose rules for errors and lifetimes it has) of an object that must have no other
// fields than `known`: a misspelt one would be a default in disguise.
class JsonFields {
 public:
  JsonFields(const JsonValue& object, std::string path,
             std::initializer_list<std::string_view> known);

  FieldReader& reader() { return reader_; }
  // The field must be there.
  const JsonValue* Require(std::string_view key);
  void RequireNumber(std::string_view key, NumberRange range, double* value);

 private:
  FieldReader reader_;
};

// The one object of a file. Errors name it.
Result<JsonValue> ParseJsonFile(std::string_view text, std::string_view file_name);

}  // namespace fathom::plan
