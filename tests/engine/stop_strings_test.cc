#include "engine/stop_strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace fathom::engine {
namespace {

struct Ending {
  std::string text;
  std::optional<std::size_t> length_of_match;
  bool operator==(const Ending&) const = default;
};

// The definition: the first byte after which the text ends with a stop string, the longest one.
Ending NaiveEnding(const std::vector<std::string>& strings, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : strings) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), longest};
  }
  return {text, std::nullopt};
}

// `cuts` has a bit for each place between two bytes; a set bit begins a new piece.
Ending FeedInPieces(const std::vector<std::string>& strings, const std::string& text,
                    std::uint64_t cuts) {
  StopStrings stops(strings);
  std::string returned;
  std::string piece;
  for (std::size_t i = 0; i < text.size(); ++i) {
    piece.push_back(text[i]);
    if (((cuts >> i) & 1) != 0 || i + 1 == text.size()) {
      returned += stops.Feed(piece);
      piece.clear();
    }
  }
  returned += stops.Flush();
  if (!stops.matched()) return {returned, std::nullopt};
  return {returned, strings[*stops.matched()].size()};
}

TEST(StopStrings, EverySplit) {
  const std::vector<std::vector<std::string>> sets = {
      {},           {"b"},          {"aab"},        {"abab"},    {"ba", "aba"},
      {"xyz", "y"}, {"aa", "aaaa"}, {"abc", "bcd"}, {"aabaaab"}, {"caab", "aab", "ab"},
  };
  const std::vector<std::string> texts = {"",      "a",           "aaab",      "abaabab",
                                          "xyxyz", "caabaabaaab", "ababcabcd", "aaaaaaaa"};
  for (const auto& strings : sets) {
    for (const std::string& text : texts) {
      const Ending expected = NaiveEnding(strings, text);
      const std::uint64_t n_cuts = text.empty() ? 1 : std::uint64_t{1} << (text.size() - 1);
      for (std::uint64_t cuts = 0; cuts < n_cuts; ++cuts) {
        ASSERT_EQ(FeedInPieces(strings, text, cuts), expected) << text << " cut at " << cuts;
      }
    }
  }
}

TEST(StopStrings, RandomStringsTextsAndSplits) {
  const auto word = [](int longest) {
    return rc::gen::resize(
        longest,
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'))));
  };
  const bool holds = rc::check([&] {
    const auto strings = *rc::gen::resize(5, rc::gen::container<std::vector<std::string>>(word(6)));
    const std::string text = *word(60);
    const auto cuts = *rc::gen::arbitrary<std::uint64_t>();
    RC_ASSERT(FeedInPieces(strings, text, cuts) == NaiveEnding(strings, text));
  });
  EXPECT_TRUE(holds);
}

TEST(StopStrings, HoldsBackOnlyWhatMayMatch) {
  StopStrings stops(std::vector<std::string>{"</stop>", "\n\n"});
  EXPECT_EQ(stops.Feed("one <"), "one ");
  EXPECT_EQ(stops.Feed("/st"), "");
  EXPECT_EQ(stops.Feed("art>"), "</start>");
  EXPECT_EQ(stops.Feed("two\n"), "two");
  EXPECT_EQ(stops.Feed("three\n"), "\nthree");
  EXPECT_EQ(stops.Feed("\nfour"), "");
  EXPECT_EQ(stops.matched(), 1u);
  EXPECT_EQ(stops.Feed("five"), "");
  EXPECT_EQ(stops.Flush(), "");
}

TEST(StopStrings, FlushReturnsWhatWasHeldBack) {
  StopStrings stops(std::vector<std::string>{"\xE2\x82\xAC!"});
  EXPECT_EQ(stops.Feed("1 \xE2\x82"), "1 ");
  EXPECT_EQ(stops.Feed("\xAC"), "");
  EXPECT_EQ(stops.Flush(), "\xE2\x82\xAC");
  EXPECT_EQ(stops.Flush(), "");
  EXPECT_FALSE(stops.matched());
}

}  // namespace
}  // namespace fathom::engine
