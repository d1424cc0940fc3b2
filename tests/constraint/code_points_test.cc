#include "constraint/readers/code_points.h"

#include <gtest/gtest.h>
#include <pcre2.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"

namespace fathom::constraint {
namespace {

CodePointSet RandomSet(std::mt19937& random) {
  std::vector<CodePointRange> ranges;
  for (auto n = random() % 6; n > 0; --n) {
    const auto first = static_cast<char32_t>(random() % 40 + (random() % 3 == 0 ? 0xD7F0u : 0u));
    ranges.push_back({first, first + static_cast<char32_t>(random() % 10)});
  }
  return MakeCodePointSet(std::move(ranges));
}

TEST(CodePoints, SetsAreSets) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const CodePointSet a = RandomSet(random);
    const CodePointSet b = RandomSet(random);
    const CodePointSet either = Union(a, b);
    const CodePointSet both = Intersection(a, b);
    const CodePointSet others = Complement(a);
    EXPECT_EQ(Complement(others), a);
    for (const char32_t base : {0u, 0xD7E0u}) {
      for (char32_t c = base; c < base + 70; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        ASSERT_EQ(Contains(either, c), Contains(a, c) || Contains(b, c));
        ASSERT_EQ(Contains(both, c), Contains(a, c) && Contains(b, c));
        ASSERT_EQ(Contains(others, c), !Contains(a, c));
      }
    }
    for (std::size_t k = 1; k < either.size(); ++k) {
      ASSERT_GT(either[k].first, either[k - 1].last + 1);
    }
  }
  EXPECT_EQ(AllCodePoints(), (CodePointSet{{0, 0xD7FF}, {0xE000, 0x10FFFF}}));
  EXPECT_EQ(Complement(AllCodePoints()), CodePointSet{});
}

// The code points that PCRE2 finds in a text of all of them.
CodePointSet FoundByPcre2(const std::string& text, const std::string& pattern) {
  int code = 0;
  std::size_t offset = 0;
  pcre2_code* const compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                             pattern.size(), PCRE2_UTF, &code, &offset, nullptr);
  pcre2_match_data* const data = pcre2_match_data_create_from_pattern(compiled, nullptr);
  CodePointSet found;
  std::vector<CodePointRange> ranges;
  std::size_t at = 0;
  const auto code_point_at = [&](std::size_t i) -> char32_t {
    const auto byte = [&](std::size_t k) {
      return static_cast<char32_t>(static_cast<std::uint8_t>(text[i + k]));
    };
    if (byte(0) < 0x80) return byte(0);
    if (byte(0) < 0xE0) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    const char32_t three = (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (byte(0) < 0xF0) return (byte(0) & 0xF) << 12 | three;
    return (byte(0) & 7) << 18 | three << 6 | (byte(3) & 0x3F);
  };
  while (at < text.size() && pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                         text.size(), at, PCRE2_NO_UTF_CHECK, data, nullptr) > 0) {
    const std::size_t* const match = pcre2_get_ovector_pointer(data);
    std::size_t last = match[1] - 1;
    while ((static_cast<std::uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    ranges.push_back({code_point_at(match[0]), code_point_at(last)});
    at = match[1];
  }
  pcre2_match_data_free(data);
  pcre2_code_free(compiled);
  return MakeCodePointSet(std::move(ranges));
}

TEST(CodePoints, GeneralCategoriesAreThoseOfPcre2) {
  std::array<char, 64> version = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version.data());
  if (std::string_view(version.data()) != "14.0.0") GTEST_SKIP() << version.data();
  std::string all;
  for (const CodePointRange& range : AllCodePoints()) {
    for (char32_t c = range.first; c <= range.last; ++c) AppendUtf8(c, all);
  }
  for (const std::string name : {"L", "Lu", "M", "Nd", "P", "S", "Z"}) {
    EXPECT_EQ(*GeneralCategory(name), FoundByPcre2(all, "\\p{" + name + "}+")) << name;
  }
}

TEST(CodePoints, GeneralCategoriesHaveTheirNames) {
  EXPECT_EQ(GeneralCategory("Letter"), GeneralCategory("L"));
  EXPECT_EQ(GeneralCategory("digit"), GeneralCategory("Nd"));
  EXPECT_EQ(GeneralCategory("Decimal_Number"), GeneralCategory("Nd"));
  EXPECT_EQ(*GeneralCategory("LC"),
            Union(Union(*GeneralCategory("Lu"), *GeneralCategory("Ll")), *GeneralCategory("Lt")));
  EXPECT_EQ(*GeneralCategory("Zl"), (CodePointSet{{0x2028, 0x2028}}));
  EXPECT_EQ(*GeneralCategory("Cs"), CodePointSet{});
  for (const std::string_view name : {"", "X", "Greek", "letter", "Lx", "LuLl"}) {
    EXPECT_EQ(GeneralCategory(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace fathom::constraint
