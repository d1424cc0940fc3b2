#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using Kind = Utf8Sequence::Kind;

TEST(Utf8, AcceptsExactlyTheCodePoints) {
  for (std::uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) {
      continue;
    }
    std::string text;
    AppendUtf8(code_point, text);
    const Utf8Sequence sequence = FirstUtf8Sequence(text);
    ASSERT_EQ(sequence.kind, Kind::kComplete) << code_point;
    ASSERT_EQ(sequence.n_bytes, text.size()) << code_point;
    for (std::size_t n_bytes = 1; n_bytes < text.size(); ++n_bytes) {
      const Utf8Sequence part = FirstUtf8Sequence(std::string_view(text).substr(0, n_bytes));
      ASSERT_EQ(part.kind, Kind::kIncomplete) << code_point;
      ASSERT_EQ(part.n_bytes, n_bytes) << code_point;
    }
  }
}

TEST(Utf8, ShortensAtTheEndOfACodePoint) {
  EXPECT_EQ(ShortenedUtf8("", 0), "");
  EXPECT_EQ(ShortenedUtf8("four", 4), "four");
  EXPECT_EQ(ShortenedUtf8("fives", 4), "five...");
  EXPECT_EQ(ShortenedUtf8("ab€", 5), "ab€");
  EXPECT_EQ(ShortenedUtf8("ab€c", 4), "ab...");
  EXPECT_EQ(ShortenedUtf8("ab€c", 5), "ab€...");
  EXPECT_EQ(ShortenedUtf8("\x80\x80\x80", 2), "...");
}

TEST(Utf8, WritesCodePoints) {
  std::string text;
  for (const std::uint32_t code_point : {0x24u, 0xA3u, 0x20ACu, 0x10348u, 0xD800u, 0x110000u}) {
    AppendUtf8(code_point, text);
  }
  EXPECT_EQ(text, "$£€𐍈\uFFFD\uFFFD");
}

TEST(Utf8, NamesTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("abcdefghijklmnop\u20AC"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\xFF"), 0u);
  EXPECT_EQ(FindInvalidUtf8("abcdefghij\xC3(lmnop"), 10u);
  EXPECT_EQ(FindInvalidUtf8("\u20AC\xE2\x82"), 3u) << "cut off";
  EXPECT_EQ(FindInvalidUtf8("a\xED\xA0\x80"), 1u) << "surrogate";
  EXPECT_EQ(FindInvalidUtf8("a\xC0\x80"), 1u) << "overlong";
  EXPECT_EQ(FindInvalidUtf8("a\xF4\x90\x80\x80"), 1u) << "above U+10FFFF";
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// data/utf8_replace.json: bytes and the result of Python's bytes.decode("utf-8", "replace").
TEST(Utf8, RepairsAsPythonDoesHoweverTheBytesAreCut) {
  const auto cases = nlohmann::json::parse(
      testing::ReadFile(testing::ProjectPath("tests/base/data/utf8_replace.json")));
  ASSERT_EQ(cases.size(), 517u);
  for (const auto& entry : cases) {
    const std::string bytes = FromHex(entry.at("bytes"));
    const std::string expected = entry.at("text");
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), expected) << entry;
    // Every way to cut at most 12 bytes; longer ones into pieces of every length.
    const std::size_t n_borders = bytes.empty() ? 0 : bytes.size() - 1;
    for (std::uint32_t cuts = 0; n_borders <= 11 && cuts < (1u << n_borders); ++cuts) {
      Utf8Stream stream;
      std::string text;
      std::size_t begin = 0;
      for (std::size_t end = 1; end <= bytes.size(); ++end) {
        if (end == bytes.size() || ((cuts >> (end - 1)) & 1u) != 0) {
          stream.Push(std::string_view(bytes).substr(begin, end - begin), text);
          ASSERT_LE(stream.pending_bytes(), 3u);
          ASSERT_EQ(FindInvalidUtf8(text), std::nullopt);
          begin = end;
        }
      }
      stream.Finish(text);
      ASSERT_EQ(text, expected) << entry << " cut by mask " << cuts;
    }
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      Utf8Stream stream;
      std::string text;
      for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
        stream.Push(std::string_view(bytes).substr(begin, step), text);
      }
      stream.Finish(text);
      ASSERT_EQ(text, expected) << entry << " cut every " << step;
    }
  }
}

// The example of the Unicode standard, section 3.9: one U+FFFD for each maximal part of a sequence.
TEST(Utf8, RepairsAsTheStandardRecommends) {
  EXPECT_EQ(ReplaceInvalidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
}

TEST(Utf8, AFinishedStreamIsAsNew) {
  Utf8Stream stream;
  std::string text;
  stream.Push("a\xE2\x82", text);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(stream.pending_bytes(), 2u);
  stream.Finish(text);
  EXPECT_EQ(text, "a\uFFFD");
  stream.Finish(text);
  stream.Push("\xAC", text);
  EXPECT_EQ(text, "a\uFFFD\uFFFD") << "the held bytes are forgotten";
}

}  // namespace
}  // namespace fathom
