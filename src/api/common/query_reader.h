// QueryReader: reads the fields of a query, "limit=5&order=asc", each by its type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/field_reader.h"

namespace fathom::api {

// Keeps the first error, which names the field, and continues; get the error once, at the end.
// Unknown fields are ignored. `query` must outlive the reader.
class QueryReader {
 public:
  explicit QueryReader(std::string_view query);

  // Returns the text of a field, if there is one. Escaped characters (%2F) stay escaped: no field
  // that is read here contains any.
  std::optional<std::string> Find(std::string_view key) const;
  // Returns one of the texts; the first of them if the field is absent.
  std::string OneOf(std::string_view key, std::initializer_list<std::string_view> texts);
  // Refuses each value of a list, "key=a&key=b" or "key[]=a", that is not one of the texts.
  void CheckList(std::string_view key, std::span<const std::string_view> texts);
  bool Flag(std::string_view key) { return OneOf(key, {"false", "true"}) == "true"; }
  std::int64_t Integer(std::string_view key, IntegerRange range, std::int64_t otherwise);

  const std::optional<Error>& error() const { return error_; }

 private:
  struct Field {
    std::string_view name;
    std::string_view value;
  };

  void Fail(std::string_view key, std::string_view expected, std::string_view found);

  std::vector<Field> fields_;
  std::optional<Error> error_;
};

}  // namespace fathom::api
