#include "json/json_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom::json {
namespace {

std::string Canonical(std::string_view text) {
  const Result<JsonValue> value = ParseJson(text);
  return value ? CanonicalJson(*value) : value.error().message;
}

TEST(CanonicalJson, OneTextForAllSpellings) {
  EXPECT_EQ(Canonical(R"({"b": [1, 2.50, null, true], "a": {"d": "x", "c": ""}})"),
            R"({"a":{"c":"","d":"x"},"b":[1,2.5,null,true]})");
  EXPECT_EQ(Canonical(R"({ "a" : "\u0041\/\u00e9" })"), R"({"a":"A/é"})");
  EXPECT_EQ(Canonical(R"({"a": 1, "a": 2})"), R"({"a":2})") << "as Python reads it";
  EXPECT_EQ(Canonical("[]"), "[]");
  EXPECT_EQ(Canonical("{}"), "{}");
}

TEST(CanonicalJson, WholeNumbersAreIntegers) {
  for (const char* one : {"1", "1.0", "1e0", "10e-1", "1.000"}) EXPECT_EQ(Canonical(one), "1");
  for (const char* zero : {"0", "-0", "0.0", "-0.0"}) EXPECT_EQ(Canonical(zero), "0");
  EXPECT_EQ(Canonical("-12e2"), "-1200");
  EXPECT_EQ(Canonical("9007199254740992.0"), "9007199254740992");
  EXPECT_EQ(Canonical("1e300"), "1e+300") << "its digits as an integer are nobody's spelling";
  EXPECT_EQ(Canonical("12345678901234567890"), "12345678901234567890");
}

TEST(CanonicalJson, OtherValuesAreOtherTexts) {
  const char* const values[] = {"1",
                                "\"1\"",
                                "1.5",
                                "true",
                                "null",
                                "[1]",
                                "[1,2]",
                                "[2,1]",
                                "[[1],2]",
                                "{}",
                                "{\"1\":1}",
                                "{\"1\":2}",
                                "12345678901234567891",
                                "12345678901234567000",
                                "\"1 \""};
  for (const char* a : values) {
    for (const char* b : values) {
      EXPECT_EQ(Canonical(a) == Canonical(b), std::string(a) == b) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace fathom::json
