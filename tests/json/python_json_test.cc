#include "json/json_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "json/json_value.h"
#include "tests/chat/golden.h"

namespace fathom::json {
namespace {

using ::testing::HasSubstr;

std::string Reserialize(std::string_view text) {
  const Result<std::string> result = ReserializeLikePython(text);
  return result ? *result : result.error().message;
}

TEST(JsonNumbers, KeepTheirDigitsOutsideOfPython) {
  constexpr const char* kText = "[1e-400,1.50,0.10000000000000000555,1e400,-0.0]";
  const JsonValue value = *ParseJson(kText);
  EXPECT_EQ(WriteJson(value), kText);
  EXPECT_EQ(PythonJson(value), "[0.0, 1.5, 0.1, Infinity, -0.0]");
  EXPECT_EQ(CanonicalJson(*ParseJson("[1.50,1.0,1e2]")), "[1.5,1,100]");
  EXPECT_EQ(value.items()[0].AsDouble(), 0.0);
  EXPECT_EQ(value.items()[2].text(), "0.10000000000000000555");
  EXPECT_FALSE(value.items()[0].Truthy());
}

TEST(PythonJson, Cases) {
  const auto cases = testing::EncodingJson("extra/python_json_cases.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  EXPECT_EQ(cases->size(), 16U);
  for (const testing::Json& entry : *cases) {
    EXPECT_EQ(Reserialize(entry["input"].get<std::string>()), entry["dumps"].get<std::string>());
  }
}

// Printed with Python 3.11.
TEST(PythonJson, Floats) {
  EXPECT_EQ(PythonFloat("0.0001"), "0.0001");
  EXPECT_EQ(PythonFloat("0.00001234"), "1.234e-05");
  EXPECT_EQ(PythonFloat("9999999999999998.0"), "9999999999999998.0");
  EXPECT_EQ(PythonFloat("1e15"), "1000000000000000.0");
  EXPECT_EQ(PythonFloat("1.5e100"), "1.5e+100");
  EXPECT_EQ(PythonFloat("-2.5E-7"), "-2.5e-07");
  EXPECT_EQ(PythonFloat("0.1e1"), "1.0");
  EXPECT_EQ(PythonFloat("-0e5"), "-0.0");
  EXPECT_EQ(PythonFloat("1e-400"), "0.0");
  EXPECT_EQ(PythonFloat("-1e-400"), "-0.0");
  EXPECT_EQ(PythonFloat("-1e400"), "-Infinity");
  EXPECT_EQ(PythonFloat("1e99999999999999999999999"), "Infinity");
  EXPECT_EQ(PythonFloat("1e-99999999999999999999999"), "0.0");
  EXPECT_EQ(PythonFloat("0e99999999999999999999999"), "0.0");
  EXPECT_EQ(PythonFloat("2.2250738585072014e-308"), "2.2250738585072014e-308");
}

TEST(PythonJson, LoneSurrogatesBecomeTheReplacementCharacter) {
  EXPECT_EQ(Reserialize(R"("\ud83d")"), "\"\uFFFD\"");
  EXPECT_EQ(Reserialize(R"("\ud83dx\ude00")"), "\"\uFFFDx\uFFFD\"");
  EXPECT_EQ(Reserialize(R"("\ud83d\u0041")"), "\"\uFFFDA\"");
  EXPECT_EQ(Reserialize(R"("\ud83d\ud83d\ude00")"), "\"\uFFFD😀\"");
}

TEST(JsonValue, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Reserialize(""), "JSON, byte 0: expected a value, found the end of the text");
  EXPECT_EQ(Reserialize("[1, 2"), "JSON, byte 5: expected ',' or ']', found the end of the text");
  EXPECT_EQ(Reserialize("{\"a\" 1}"), "JSON, byte 5: expected ':', found byte 0x31");
  EXPECT_EQ(Reserialize("[1,]"), "JSON, byte 3: expected a value, found byte 0x5d");
  EXPECT_EQ(Reserialize("{,}"), "JSON, byte 1: expected a key in quotes, found byte 0x2c");
  EXPECT_EQ(Reserialize("1 2"), "JSON, byte 2: expected the end of the text, found byte 0x32");
  EXPECT_EQ(Reserialize("01"), "JSON, byte 1: expected the end of the text, found byte 0x31");
  EXPECT_EQ(Reserialize("1."), "JSON, byte 2: expected a digit, found the end of the text");
  EXPECT_EQ(Reserialize("1e+"), "JSON, byte 3: expected a digit, found the end of the text");
  EXPECT_EQ(Reserialize("-"), "JSON, byte 1: expected a value, found the end of the text");
  EXPECT_EQ(Reserialize("\"a"),
            "JSON, byte 2: expected a closing quote, found the end of the text");
  EXPECT_EQ(Reserialize("\"\\x\""), "JSON, byte 2: expected an escape, found byte 0x78");
  EXPECT_EQ(Reserialize("\"\\"), "JSON, byte 2: expected an escape, found the end of the text");
  EXPECT_EQ(Reserialize("\"\\u00g0\""),
            "JSON, byte 5: expected a hexadecimal digit, found byte 0x67");
  EXPECT_EQ(Reserialize("\"\n\""),
            "JSON, byte 1: expected an escaped control character, found byte 0x0a");
  EXPECT_THAT(Reserialize("\"\xC3\""), HasSubstr("valid UTF-8"));
  EXPECT_THAT(Reserialize("nul"), HasSubstr("expected a value"));
}

TEST(JsonValue, NestingIsLimited) {
  const std::size_t limit = 200;
  EXPECT_EQ(Reserialize(std::string(limit, '[') + std::string(limit, ']')).size(), 2 * limit);
  EXPECT_THAT(Reserialize(std::string(limit + 1, '[') + std::string(limit + 1, ']')),
              HasSubstr("expected at most 200 nested arrays and objects"));
  EXPECT_THAT(Reserialize(std::string(10'000'000, '[')), HasSubstr("nested"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(Reserialize(objects), HasSubstr("nested"));
}

TEST(JsonValue, PythonConstantsCanBeRefused) {
  for (const std::string_view text : {"NaN", "Infinity", "-Infinity", "[NaN]"}) {
    EXPECT_TRUE(ParseJson(text)) << text;
    EXPECT_FALSE(ParseJson(text, {.python_constants = false})) << text;
  }
}

TEST(JsonValue, KnowsItsSource) {
  const std::string_view text = R"( {"a" : [1, 2.50] , "b": "x"} )";
  const Result<JsonValue> value = ParseJson(text);
  ASSERT_TRUE(value);
  const auto source = [&](const JsonValue* part) { return part->SourceIn(text); };
  EXPECT_EQ(source(&*value), R"({"a" : [1, 2.50] , "b": "x"})");
  EXPECT_EQ(source(value->Find("a")), "[1, 2.50]");
  EXPECT_EQ(source(value->Find("b")), "\"x\"");
  EXPECT_EQ(value->Find("c"), nullptr);
}

TEST(JsonValue, ManyKeysAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text.append("\"k").append(std::to_string(i)).append("\":1,");
  text += "\"k0\":2}";
  const Result<JsonValue> value = ParseJson(text);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->items().size(), 200'000U);
  EXPECT_EQ(value->items().front().text(), "2");
}

}  // namespace
}  // namespace fathom::json
