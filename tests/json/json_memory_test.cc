// How much memory parsing takes, counted where it is allocated.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "json/json_value.h"

namespace {

std::atomic<std::int64_t> held_bytes = 0;
std::atomic<std::int64_t> most_bytes = 0;

std::int64_t HeapBytes(void* block) {
  constexpr std::int64_t kHead = 8;  // of glibc
  return static_cast<std::int64_t>(::malloc_usable_size(block)) + kHead;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  const std::int64_t held = held_bytes += HeapBytes(block);
  if (held > most_bytes) most_bytes = held;  // one thread at a time allocates in these tests
  return block;
}

void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  held_bytes -= HeapBytes(block);
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace fathom::json {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr std::size_t kBytes = std::size_t{4} << 20;

std::string Repeated(std::string_view open, std::string_view unit, std::string_view close,
                     std::size_t n_bytes = kBytes) {
  std::string text(open);
  while (text.size() + unit.size() < n_bytes) text += unit;
  return text.append(close);
}

struct Measured {
  Result<JsonValue> value;
  std::int64_t bytes;  // the most that were held at once
};

Measured Measure(std::string_view text) {
  const std::int64_t before = held_bytes;
  most_bytes = before;
  Result<JsonValue> value = ParseJson(text);
  return {std::move(value), most_bytes - before};
}

TEST(JsonMemory, NoTextTakesMoreThanItsLimit) {
  const std::string_view text_of_lists[][3] = {
      {"[", "0,", "0]"},
      {"[", "[],", "[]]"},
      {R"({"x":[)", "[],", "[]]}"},
      {"[", "{},", "{}]"},
      {"[", "[0],", "[0]]"},
      {"[", "[[]],", "[[]]]"},
      {"[", "[[[[0]]]],", "0]"},
      {"[", "\"\",", "\"\"]"},
      {"[", "\"12345678901\",", "0]"},
      {"[", R"("\n",)", "0]"},
      {"[", R"("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9",)", "0]"},
      {"[", "1e9,", "0]"},
      {"[", "1e15,", "0]"},
      {"[", "12345678901234567890,", "0]"},
      {"[", "null,", "0]"},
      {"{", R"("":0,)", R"("":0})"},
      {"[", R"({"":0},)", "0]"},
      {"[", R"({"":{}},)", "0]"},
      {"[", R"({"a":0,"b":0},)", "0]"},
      {"[", R"({"12345678901":0},)", "0]"},
      {"\"", "x", "\""},
      {"\"", "\\n", "\""},
      {"[\"", "\\n", "\"]"},
      // Not JSON.
      {"[", ",", "]"},
      {"[", "[", ""},
      {"[", "[,],", ""},
      {"{", ",", "}"},
      {"", "[]", ""},
      {"", "]", ""},
      {"[\"", "\\", ""},
      {"", "{\"\":", ""},
  };
  for (const auto& [open, unit, close] : text_of_lists) {
    const std::string text = Repeated(open, unit, close);
    const Measured measured = Measure(text);
    EXPECT_LE(measured.bytes, static_cast<std::int64_t>(MaxJsonBytes(text.size()))) << open << unit;
    EXPECT_LE(MaxJsonBytes(text.size()), 8 * text.size() + (1 << 20));
  }
}

// Keys of one object, all different.
TEST(JsonMemory, ManyKeysTakeNoMoreThanTheirLimit) {
  std::string text = "{";
  for (int i = 0; text.size() < kBytes; ++i) text += "\"" + std::to_string(i) + "\":0,";
  const Measured measured = Measure(text + "\"\":0}");
  EXPECT_TRUE(measured.value);
  EXPECT_LE(measured.bytes, static_cast<std::int64_t>(MaxJsonBytes(text.size())));
}

TEST(JsonMemory, BodiesOfClientsPass) {
  const auto passes = [](const std::string& text) {
    const Measured measured = Measure(text);
    EXPECT_TRUE(measured.value) << text.substr(0, 80) << ": " << measured.value.error().message;
  };
  for (const std::string_view id : {"7", "42", "128000"}) {
    for (const std::string_view comma : {",", ", "}) {
      std::string text = R"({"prompt":[)";
      for (int i = 0; i < 1'000'000; ++i) text.append(id).append(comma);
      passes(text.append(id).append("]}"));
    }
  }
  passes(Repeated(
      R"({"tools":[)",
      R"({"type":"function","function":{"name":"f","parameters":{"type":"object","properties":)"
      R"({"a":{"type":"string","enum":["x","y"]},"b":{"type":["integer","null"]}},"required":["a"],)"
      R"("additionalProperties":false}}},)",
      "0]}", 50'000'000));
  passes(Repeated(R"({"messages":[)", R"({"role":"user","content":"x"},)", "0]}", 50'000'000));
  passes(Repeated(R"({"prompt":")", "word ", "\"}", 50'000'000));
}

// Refused before anything is allocated.
TEST(JsonMemory, ErrorsSayWhatIsTooLarge) {
  const std::string text = Repeated(R"({"x":[)", "[],", "[]]}", 57'000'000);
  const Measured measured = Measure(text);
  ASSERT_FALSE(measured.value);
  EXPECT_EQ(measured.value.error().code, ErrorCode::kTooLarge);
  // 16 bytes for each of 19 million lists.
  EXPECT_THAT(
      measured.value.error().message,
      StartsWith(fmt::format("JSON of {} bytes: expected values that take at most 268435456 "
                             "bytes of memory, found 3040",
                             text.size())));
  EXPECT_THAT(measured.value.error().message, EndsWith(" or more"));
  EXPECT_LT(measured.bytes, 100'000);
}

TEST(JsonMemory, TextsThatAreStoppedLeaveNothing) {
  const std::string text = Repeated("[", "12345,", "0]");
  for (const int n_asked : {0, 1, 63, 64, 100}) {  // in the first pass, and in the second
    int n = 0;
    const std::int64_t before = held_bytes;
    const Result<JsonValue> value = ParseJson(text, {.stop = [&] { return n++ == n_asked; }});
    EXPECT_EQ(n, n_asked + 1);
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code, ErrorCode::kUnavailable);
    EXPECT_LT(held_bytes - before, 1'000);
  }
}

TEST(JsonMemory, ShortTextsAreNotAskedAbout) {
  const Result<JsonValue> value = ParseJson("[1, 2]", {.stop = [] { return true; }});
  EXPECT_TRUE(value);
}

}  // namespace
}  // namespace fathom::json
