// The distance between what was typed and what there is, for "did you mean".
#pragma once

#include <cstddef>
#include <string_view>

namespace fathom {

// Returns the number of bytes to insert, remove or change to make one text of the other. Costs the
// product of both lengths: bound a text from outside first.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace fathom
