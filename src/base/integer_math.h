// Quotients and multiples that are not below.
#pragma once

#include <concepts>
#include <type_traits>

namespace fathom {

// a at least 0, b above; their sum fits.
template <std::integral T>
constexpr T DivideUp(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

// The next multiple of `unit`.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return DivideUp(value, unit) * unit;
}

}  // namespace fathom
