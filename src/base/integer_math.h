// Rounds divisions and multiples up.
#pragma once

#include <concepts>
#include <type_traits>

namespace fathom {

// Returns a / b rounded up; a >= 0, b > 0, and a + b must not overflow.
template <std::integral T>
constexpr T DivideUp(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

// Returns the next multiple of `unit`.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return DivideUp(value, unit) * unit;
}

}  // namespace fathom
