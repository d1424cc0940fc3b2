// Sets of Unicode code points without surrogates.
#pragma once

#include <compare>
#include <optional>
#include <string_view>
#include <vector>

namespace fathom::constraint {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

// Inclusive ranges of code points, ascending, disjoint, without surrogates.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
  friend constexpr auto operator<=>(const CodePointRange&, const CodePointRange&) = default;
};
using CodePointSet = std::vector<CodePointRange>;

// Makes the set of the code points in `ranges`, which may be in any order, overlap and hold
// surrogates. Surrogates are left out, and ranges that touch are joined.
CodePointSet MakeCodePointSet(std::vector<CodePointRange> ranges);

CodePointSet AllCodePoints();
CodePointSet Complement(const CodePointSet& set);
CodePointSet Union(const CodePointSet& a, const CodePointSet& b);
CodePointSet Intersection(const CodePointSet& a, const CodePointSet& b);
bool Contains(const CodePointSet& set, char32_t code_point);

// The code points of a general category by the names of Unicode's PropertyValueAliases.txt, such as
// "Lu", "Uppercase_Letter" or "L"; nothing if there is no such category. Unicode 14.
std::optional<CodePointSet> GeneralCategory(std::string_view name);

}  // namespace fathom::constraint
