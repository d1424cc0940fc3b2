// The names that the parameters of a tool may have where only the markup of its calls is enforced
// (docs/spec/constrained.md 2.5).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "json/json_value.h"

namespace fathom::constraint {

struct MarkupNames {
  std::vector<std::string> declared{};  // each once
  bool has_others = false;              // other names are allowed, too
};

// The names in `properties` and `required` of the schema and of the schemas that apply to the same
// object (allOf, anyOf, $ref and the like). Other names are allowed if there are no `properties`,
// or if some keyword allows them; without a schema (null) there are no names. Never fails: a schema
// that cannot be read allows every name. O(n log n) in the size of the schema.
MarkupNames NamesForMarkup(const JsonValue& schema);

// The names in `required` of the schema and of the schemas that hold beside it ($ref, allOf). The
// views point into `schema`. Never fails, as above.
std::set<std::string_view> RequiredInMarkup(const JsonValue& schema);

// True if a call can have a parameter with that name such that the parser of calls finds it again:
// the name has no quotes and no control characters, and is not longer than a tag allows.
bool IsMarkupParameterName(std::string_view name, std::string_view dsml_text);
// True if a tool may have this name: it must not be empty, nor contain < or >.
bool IsMarkupToolName(std::string_view name, std::string_view dsml_text);

}  // namespace fathom::constraint
