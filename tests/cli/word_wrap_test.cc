#include "cli/terminal/word_wrap.h"

#include <gtest/gtest.h>

#include <clocale>
#include <string>

namespace fathom::cli {
namespace {

// Gives the text in pieces of this size.
std::string Wrapped(const std::string& text, int columns, std::size_t n_bytes = 1'000) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  WordWrap wrap(columns);
  std::string shown;
  for (std::size_t i = 0; i < text.size(); i += n_bytes) {
    shown += wrap.Add(text.substr(i, n_bytes));
  }
  return shown + wrap.Flush();
}

TEST(WordWrapTest, BreaksBetweenWords) {
  const std::string text = "Once upon a time there was a king.\n\n  He had two sons  and a ";
  const std::string expected =
      "Once upon\na time\nthere was\na king.\n\n  He had\ntwo sons\nand a ";
  EXPECT_EQ(Wrapped(text, 10), expected);
  for (const std::size_t n_bytes : {1, 2, 3, 7}) {
    EXPECT_EQ(Wrapped(text, 10, n_bytes), expected) << n_bytes;
  }
  EXPECT_EQ(Wrapped("a\tb c", 9), "a\tb\nc") << "b is in column 8";
  EXPECT_EQ(Wrapped("1234567890", 10), "1234567890");
  EXPECT_EQ(Wrapped("12345 67890", 11), "12345 67890");
  EXPECT_EQ(Wrapped("12345 67890", 10), "12345\n67890");
}

TEST(WordWrapTest, CountsColumnsAndNotBytes) {
  EXPECT_EQ(Wrapped("käse käse", 9), "käse käse");
  EXPECT_EQ(Wrapped("käse käse", 8), "käse\nkäse");
  EXPECT_EQ(Wrapped("从前有一个国王", 6), "从前有\n一个国\n王") << "between any two ideographs";
}

TEST(WordWrapTest, LeavesLongWordsToTheTerminal) {
  EXPECT_EQ(Wrapped("a 12345678901234 b", 10), "a\n12345678901234 b");
}

TEST(WordWrapTest, ChangesNothingWithoutATerminal) {
  const std::string text = "Once upon a time  there was\n a king. ";
  WordWrap wrap(0);
  for (const char c : text) EXPECT_EQ(wrap.Add(std::string(1, c)), std::string(1, c));
  EXPECT_EQ(wrap.Flush(), "");
}

TEST(WordWrapTest, KnowsWhetherALineIsOpen) {
  WordWrap wrap(10);
  EXPECT_FALSE(wrap.in_line());
  wrap.Add("a");
  EXPECT_TRUE(wrap.in_line());
  wrap.Add("\n");
  EXPECT_FALSE(wrap.in_line());
}

}  // namespace
}  // namespace fathom::cli
