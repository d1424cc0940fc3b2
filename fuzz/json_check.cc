#include "fuzz/json_check.h"

#include <set>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::fuzz {
namespace {

// Each value stands in the text where it says, and each key once.
std::string CheckPlaces(const JsonValue& value, std::string_view input) {
  const Result<JsonValue> again = ParseJson(value.SourceIn(input));
  if (!again || PythonJson(*again) != PythonJson(value)) return "a value that lies elsewhere";
  std::set<std::string_view> keys;
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    if (value.IsObject() && !keys.insert(value.key(i)).second) return "a key twice";
    if (i < 4) {
      const std::string wrong = CheckPlaces(value.items()[i], input);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace

std::string CheckJson(std::string_view input) {
  const Result<JsonValue> value = ParseJson(input);
  if (!value) {
    const bool is_known =
        value.error().code == ErrorCode::kInvalidData || value.error().code == ErrorCode::kTooLarge;
    return is_known && value.error().message.starts_with("JSON") ? "" : "an error of another kind";
  }
  const std::string text = PythonJson(*value);
  const Result<JsonValue> again = ParseJson(text);
  if (!again) return "a text that cannot be read again: " + text;
  if (PythonJson(*again) != text) return "a text that is another when it is read again: " + text;
  const JsonValue copy = *value;
  if (CanonicalJson(copy) != CanonicalJson(*again)) return "a copy that is another value";
  return CheckPlaces(*value, input);
}

}  // namespace fathom::fuzz
