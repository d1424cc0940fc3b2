// Computes the median of measured numbers.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace fathom {

// Returns the middle one of `numbers`; for an even count, the upper of the two in the middle. There
// must be at least one number.
inline double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace fathom
