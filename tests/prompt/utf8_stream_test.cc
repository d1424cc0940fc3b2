#include "prompt/utf8_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

std::string Repair(std::string_view bytes, std::size_t cut) {
  Utf8Stream stream;
  std::string out;
  stream.Feed(bytes.substr(0, cut), &out);
  EXPECT_TRUE(IsValidUtf8(out));
  stream.Feed(bytes.substr(cut), &out);
  stream.Finish(&out);
  return out;
}

// One U+FFFD for each maximal part of a sequence: the example of the Unicode standard, section 3.9.
TEST(Utf8Stream, RepairsWhereverItIsCut) {
  const std::string_view bytes = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(Repair(bytes, cut), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd") << cut;
  }
}

TEST(Utf8Stream, ValidTextPasses) {
  const std::string_view text = "aé日本語😀\u07FF\uFFFF\U0010FFFF";
  EXPECT_TRUE(IsValidUtf8(text));
  for (std::size_t cut = 0; cut <= text.size(); ++cut) EXPECT_EQ(Repair(text, cut), text);
}

TEST(Utf8Stream, RefusesWhatUtf8DoesNotHold) {
  for (const std::string_view bytes :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF",
        "\x80", "\xE2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(bytes));
  }
}

TEST(Utf8Stream, WritesCodePoints) {
  std::string out;
  for (const std::uint32_t code : {0x24U, 0xA3U, 0x20ACU, 0x10348U, 0xD800U, 0x110000U}) {
    AppendUtf8(code, &out);
  }
  EXPECT_EQ(out, "$£€𐍈\uFFFD\uFFFD");
}

}  // namespace
}  // namespace fathom
