// EditDistance: measures how far a typed word is from a known one, for "did you mean".
#pragma once

#include <cstddef>
#include <string_view>

namespace fathom {

// Returns the number of bytes to insert, remove or change to convert one text to the other. Costs
// the product of both lengths: limit untrusted texts first.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace fathom
