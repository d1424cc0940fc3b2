#include "constraint/schema/decimal.h"

#include <algorithm>

namespace fathom::constraint {
namespace {

bool IsDigitText(char c) { return c >= '0' && c <= '9'; }

int CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (a.IsZero() || b.IsZero()) return static_cast<int>(b.IsZero()) - static_cast<int>(a.IsZero());
  if (a.point != b.point) return a.point < b.point ? -1 : 1;
  return a.digits.compare(b.digits);
}

}  // namespace

std::optional<Decimal> ParseDecimal(std::string_view text) {
  constexpr std::int64_t kMaxExponent = 1'000'000;
  Decimal value;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    value.negative = true;
    ++i;
  }
  bool behind_point = false;
  std::int64_t n_whole = 0;
  bool has_digit = false;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !behind_point) {
      behind_point = true;
    } else if (IsDigitText(text[i])) {
      has_digit = true;
      value.digits += text[i];
      if (!behind_point) ++n_whole;
    } else {
      break;
    }
  }
  if (!has_digit) return std::nullopt;
  std::int64_t exponent = 0;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return std::nullopt;
    ++i;
    const bool minus = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (i == text.size()) return std::nullopt;
    for (; i < text.size(); ++i) {
      if (!IsDigitText(text[i])) return std::nullopt;
      exponent = std::min(kMaxExponent, exponent * 10 + (text[i] - '0'));
    }
    if (minus) exponent = -exponent;
  }
  const std::size_t first = std::min(value.digits.find_first_not_of('0'), value.digits.size());
  value.digits.erase(0, first);
  value.digits.erase(value.digits.find_last_not_of('0') + 1);
  if (value.digits.empty()) return Decimal();
  value.point = n_whole - static_cast<std::int64_t>(first) + exponent;
  return value;
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = CompareMagnitudes(a, b);
  return a.negative ? -order : order;
}

DecimalDigits ToDigits(const Decimal& value, int max_digits) {
  DecimalDigits parts;
  const auto n = static_cast<std::int64_t>(value.digits.size());
  if (value.point > max_digits) {
    parts.overflows = true;
    return parts;
  }
  if (value.point <= 0) {
    parts.whole = "0";
    const std::int64_t zeros = std::min<std::int64_t>(-value.point, max_digits);
    parts.fraction = value.IsZero() ? "" : std::string(zeros, '0') + value.digits;
  } else {
    const std::int64_t whole = std::min(value.point, n);
    parts.whole = value.digits.substr(0, whole) + std::string(value.point - whole, '0');
    parts.fraction = value.digits.substr(whole);
  }
  if (parts.fraction.size() > static_cast<std::size_t>(max_digits)) {
    parts.truncated = true;
    parts.fraction.resize(max_digits);
    parts.fraction.erase(parts.fraction.find_last_not_of('0') + 1);
  }
  return parts;
}

std::string PlainText(const Decimal& value) {
  const DecimalDigits parts = ToDigits(value, 400);
  if (parts.overflows) return (value.negative ? "-0." : "0.") + value.digits;
  std::string text = value.negative ? "-" : "";
  text += parts.whole;
  if (!parts.fraction.empty()) text += "." + parts.fraction;
  return text;
}

}  // namespace fathom::constraint
