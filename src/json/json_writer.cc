#include "json/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/parse_text.h"
#include "base/utf8.h"

namespace fathom::json {
namespace {

struct Style {
  std::string_view comma;
  std::string_view colon;
  int indent = 0;             // blanks per level; 0: all on one line
  bool is_canonical = false;  // sort keys, write whole floats as integers
  bool is_python = false;     // write floats as Python's repr, not as in their source
};

constexpr Style kPython = {.comma = ", ", .colon = ": ", .is_python = true};

void AppendString(std::string_view text, std::string* out) {
  out->push_back('"');
  if (IsValidUtf8(text)) {
    AppendJsonEscaped(text, out);
  } else {
    AppendJsonEscaped(ReplaceInvalidUtf8(text), out);
  }
  out->push_back('"');
}

// `repr`: the text of a float JsonValue.
std::string CanonicalFloat(std::string_view repr) {
  constexpr double kLargest = 9007199254740992;  // 2^53
  const std::optional<double> number = ParseNumber<double>(repr);
  if (!number || std::abs(*number) > kLargest || *number != std::trunc(*number)) {
    return std::string(repr);
  }
  return std::to_string(static_cast<std::int64_t>(*number));
}

void AppendValue(const JsonValue& value, const Style& style, std::size_t depth, std::string* out);

// Appends an array or an object.
void AppendList(const JsonValue& list, const Style& style, std::size_t depth, std::string* out) {
  const bool is_object = list.IsObject();
  const std::size_t n_items = list.items().size();
  std::vector<std::uint32_t> order;  // empty: in the order of the items
  if (is_object && style.is_canonical) {
    order.resize(n_items);
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return list.key(a) < list.key(b); });
  }
  const auto break_line = [&](std::size_t level) {
    if (style.indent == 0 || n_items == 0) return;
    out->append("\n").append(level * static_cast<std::size_t>(style.indent), ' ');
  };
  out->push_back(is_object ? '{' : '[');
  for (std::size_t i = 0; i < n_items; ++i) {
    const std::size_t place = order.empty() ? i : order[i];
    if (i > 0) out->append(style.comma);
    break_line(depth + 1);
    if (is_object) {
      AppendString(list.key(place), out);
      out->append(style.colon);
    }
    AppendValue(list.items()[place], style, depth + 1, out);
  }
  break_line(depth);
  out->push_back(is_object ? '}' : ']');
}

void AppendValue(const JsonValue& value, const Style& style, std::size_t depth, std::string* out) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      out->append("null");
      return;
    case JsonValue::Kind::kBool:
      out->append(value.boolean() ? "true" : "false");
      return;
    case JsonValue::Kind::kInteger:
      out->append(value.text());
      return;
    case JsonValue::Kind::kFloat:
      if (style.is_canonical) {
        out->append(CanonicalFloat(PythonFloat(value.text())));
      } else {
        out->append(style.is_python ? PythonFloat(value.text()) : std::string(value.text()));
      }
      return;
    case JsonValue::Kind::kString:
      AppendString(value.text(), out);
      return;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      AppendList(value, style, depth, out);
  }
}

std::string Write(const JsonValue& value, const Style& style) {
  std::string out;
  AppendValue(value, style, 0, &out);
  return out;
}

// Returns whether a number too extreme for a double is too large (and not too small): the power of
// ten of its first digit that is not zero decides.
bool IsTooLarge(std::string_view number) {
  long exponent = 0;
  const std::size_t mark = number.find_first_of("eE");
  if (mark != std::string_view::npos) {
    std::string_view digits = number.substr(mark + 1);
    const bool is_negative = digits.front() == '-';
    if (is_negative || digits.front() == '+') digits.remove_prefix(1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc()) return !is_negative;
    if (is_negative) exponent = -exponent;
  }
  const std::string_view mantissa = number.substr(0, mark);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  return static_cast<long>(point) - static_cast<long>(first) + exponent > 0;
}

}  // namespace

std::string WriteJson(const JsonValue& value, int indent) {
  return Write(value, {.comma = ",", .colon = indent == 0 ? ":" : ": ", .indent = indent});
}

std::string CanonicalJson(const JsonValue& value) {
  return Write(value, {.comma = ",", .colon = ":", .is_canonical = true});
}

std::string PythonJson(const JsonValue& value) { return Write(value, kPython); }

Result<std::string> ReserializeLikePython(std::string_view json_text) {
  const Result<JsonValue> value = ParseJson(json_text);
  if (!value) return Unexpected(value.error());
  return PythonJson(*value);
}

std::string PythonJsonString(std::string_view text) {
  std::string out;
  AppendString(text, &out);
  return out;
}

void AppendJsonEscaped(std::string_view text, std::string* out) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  constexpr std::string_view kNames = "\"\\nrtbf";
  for (const char c : text) {
    const std::size_t index = kEscaped.find(c);
    if (index != std::string_view::npos) {
      out->push_back('\\');
      out->push_back(kNames[index]);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out->append(fmt::format("\\u{:04x}", static_cast<unsigned char>(c)));
    } else {
      out->push_back(c);
    }
  }
}

std::string PythonFloat(std::string_view number) {
  if (number == "NaN" || number.ends_with("Infinity")) return std::string(number);
  const bool is_negative = number.front() == '-';
  double value = 0.0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    if (IsTooLarge(number)) return is_negative ? "-Infinity" : "Infinity";
    return is_negative ? "-0.0" : "0.0";
  }
  Check(error == std::errc(), "PythonFloat needs a JSON number");

  // Scientific form gives the shortest digits, d[.ddd]e±XX; the point is then placed as in Python.
  std::array<char, 64> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  if (text.front() == '-') text.remove_prefix(1);
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(mark + 1)).c_str());
  std::string digits(1, text.front());
  if (mark > 2) digits.append(text.substr(2, mark - 2));

  std::string out = is_negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out.push_back(digits[0]);
    if (digits.size() > 1) out.append(".").append(digits, 1);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+',
                   std::abs(exponent));
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else {
    const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) {
      out.append(digits).append(whole - digits.size(), '0').append(".0");
    } else {
      out.append(digits, 0, whole).append(".").append(digits, whole);
    }
  }
  return out;
}

}  // namespace fathom::json
