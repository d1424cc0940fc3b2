#include "json/canonical_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "json/python_json.h"

namespace fathom {
namespace {

// `repr`: of a float, as JsonValue holds it.
std::string CanonicalFloat(const std::string& repr) {
  constexpr double kLargest = 9007199254740992;  // 2^53
  double number = 0;
  const auto [end, error] = std::from_chars(repr.data(), repr.data() + repr.size(), number);
  const bool is_read = error == std::errc() && end == repr.data() + repr.size();
  if (!is_read || std::abs(number) > kLargest || number != std::trunc(number)) return repr;
  return std::to_string(static_cast<std::int64_t>(number));
}

void Append(const JsonValue& value, std::string* out);

void AppendObject(const JsonValue& object, std::string* out) {
  std::vector<std::size_t> order(object.keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return object.keys[a] < object.keys[b]; });
  out->push_back('{');
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0) out->push_back(',');
    out->append(PythonJsonString(object.keys[order[i]]));
    out->push_back(':');
    Append(object.items[order[i]], out);
  }
  out->push_back('}');
}

void Append(const JsonValue& value, std::string* out) {
  switch (value.kind) {
    case JsonValue::Kind::kFloat:
      out->append(CanonicalFloat(value.text));
      return;
    case JsonValue::Kind::kObject:
      AppendObject(value, out);
      return;
    case JsonValue::Kind::kArray:
      break;
    default:
      out->append(PythonJson(value));
      return;
  }
  out->push_back('[');
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out->push_back(',');
    Append(value.items[i], out);
  }
  out->push_back(']');
}

}  // namespace

std::string CanonicalJson(const JsonValue& value) {
  std::string out;
  Append(value, &out);
  return out;
}

}  // namespace fathom
