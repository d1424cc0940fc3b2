#include <algorithm>
#include <array>
#include <iterator>

#include "constraint/readers/code_points.h"
#include "constraint/readers/general_category_runs.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kCategories = std::size(kGeneralCategories);
static_assert(kCategories == 30);

struct CategoryAlias {
  std::string_view name;
  std::string_view category;  // or the common prefix of several categories
};

// The aliases in PropertyValueAliases.txt of Unicode.
constexpr CategoryAlias kCategoryAliases[] = {
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Unassigned", "Cn"},
    {"Private_Use", "Co"},
    {"Surrogate", "Cs"},
    {"Letter", "L"},
    {"Lowercase_Letter", "Ll"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Titlecase_Letter", "Lt"},
    {"Uppercase_Letter", "Lu"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Nonspacing_Mark", "Mn"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Close_Punctuation", "Pe"},
    {"Final_Punctuation", "Pf"},
    {"Initial_Punctuation", "Pi"},
    {"Other_Punctuation", "Po"},
    {"Open_Punctuation", "Ps"},
    {"Symbol", "S"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Math_Symbol", "Sm"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Space_Separator", "Zs"},
};

using CategoryChoice = std::array<bool, kCategories>;

// By category: whether the name stands for it.
CategoryChoice ChosenCategories(std::string_view name) {
  const auto alias = std::ranges::find(kCategoryAliases, name, &CategoryAlias::name);
  if (alias != std::end(kCategoryAliases)) name = alias->category;
  const bool cased = name == "LC" || name == "Cased_Letter";
  CategoryChoice chosen = {};
  for (std::size_t i = 0; i < kCategories; ++i) {
    const std::string_view category = kGeneralCategories[i];
    chosen[i] =
        !name.empty() && (name == category || name == category.substr(0, 1) ||
                          (cased && (category == "Ll" || category == "Lt" || category == "Lu")));
  }
  return chosen;
}

}  // namespace

std::optional<CodePointSet> GeneralCategory(std::string_view name) {
  const CategoryChoice chosen = ChosenCategories(name);
  if (std::ranges::none_of(chosen, [](bool is_chosen) { return is_chosen; })) return std::nullopt;
  std::vector<CodePointRange> ranges;
  char32_t first = 0;
  for (std::size_t at = 0; at < kGeneralCategoryRuns.size();) {
    const char letter = kGeneralCategoryRuns[at++];
    char32_t length = 0;
    for (; at < kGeneralCategoryRuns.size(); ++at) {
      const char digit = kGeneralCategoryRuns[at];
      if (digit < '0' || digit > '9') break;
      length = 10 * length + static_cast<char32_t>(digit - '0');
    }
    length = std::max<char32_t>(length, 1);
    const int category = letter >= 'a' ? 26 + letter - 'a' : letter - 'A';
    if (chosen[static_cast<std::size_t>(category)]) ranges.push_back({first, first + length - 1});
    first += length;
  }
  return MakeCodePointSet(std::move(ranges));
}

}  // namespace fathom::constraint
