// JsonFields: the fields of a description file: every field must be known, some are required.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::plan {

// A FieldReader (with its rules for errors and lifetimes) for an object that must have no fields
// but `known`: a misspelt field would silently be a default.
class JsonFields {
 public:
  JsonFields(const JsonValue& object, std::string path,
             std::initializer_list<std::string_view> known);

  FieldReader& reader() { return reader_; }
  // Returns the field, which must be present.
  const JsonValue* Require(std::string_view key);
  void RequireNumber(std::string_view key, NumberRange range, double* value);

 private:
  FieldReader reader_;
};

// Parses the one object of a file. Errors name the file.
Result<JsonValue> ParseJsonFile(std::string_view text, std::string_view file_name);

}  // namespace fathom::plan
