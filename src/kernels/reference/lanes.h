// The lanes and trees of every sum (docs/numerics.md 1).
//
// `static`: see kernels/math.h.
#pragma once

#include <cmath>
#include <cstdint>

namespace fathom::kernels {

inline constexpr std::int64_t kLanes = 16;

// Returns the sum of n numbers, n a power of two, as a tree, by halves. Overwrites the numbers.
static inline float TreeSum(float* v, std::int64_t n) {
  for (n /= 2; n > 0; n /= 2) {
    for (std::int64_t i = 0; i < n; ++i) {
      v[i] = v[i] + v[i + n];
    }
  }
  return v[0];
}

// Returns the sum of value(0) ... value(n - 1), in 16 plain lanes.
template <class Value>
static inline float LaneSum(std::int64_t n, const Value& value) {
  float lane[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    lane[i % kLanes] = lane[i % kLanes] + value(i);
  }
  return TreeSum(lane, kLanes);
}

// Sums x(i) * w(i), i = 0 ... n - 1, in the order of BF16 weights: 32 lanes of fma chains.
template <class X, class W>
static inline float LaneProduct(std::int64_t n, const X& x, const W& w) {
  float lane[2 * kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    lane[i % (2 * kLanes)] = std::fma(x(i), w(i), lane[i % (2 * kLanes)]);
  }
  return TreeSum(lane, 2 * kLanes);  // the first step of the tree adds lane i + 16 to lane i
}

// Returns the sum of the squares of value(0) ... value(n - 1), as RMS norms need it.
template <class Value>
static inline float SumOfSquares(std::int64_t n, const Value& value) {
  return LaneProduct(n, value, value);
}

// Returns the sum of x(i) * w(i), i = 0 ... n - 1, as one fma chain per block of `block` numbers,
// the blocks added in order.
template <class X, class W>
static inline float ChainProduct(std::int64_t n, std::int64_t block, const X& x, const W& w) {
  float sum = 0.0f;
  for (std::int64_t first = 0; first < n; first += block) {
    float chain = 0.0f;
    for (std::int64_t i = first; i < n && i < first + block; ++i) {
      chain = std::fma(x(i), w(i), chain);
    }
    sum = sum + chain;
  }
  return sum;
}

}  // namespace fathom::kernels
