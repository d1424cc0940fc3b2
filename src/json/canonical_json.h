// One text for all spellings of a JSON value: what is written differently and means the same.
#pragma once

#include <string>

#include "json/json_value.h"

namespace fathom {

// JSON without blanks, keys in the order of their bytes, numbers that are whole without fraction
// and exponent (up to 2^53, as far as clients that know only doubles keep them): {"b": 1.0, "a":
// "\u0041"} is {"a":"A","b":1}. Two values are equal if and only if their texts are.
std::string CanonicalJson(const JsonValue& value);

}  // namespace fathom
