#include "json/field_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::json {
namespace {

using ::testing::ElementsAre;

JsonValue Parsed(std::string_view text) { return ParseJson(text).value_or(JsonValue()); }

std::string ErrorMessage(const FieldReader& reader) {
  return reader.error() ? reader.error()->message : "";
}

TEST(FieldReaderTest, ReadsFieldsOfInnerObjects) {
  const JsonValue json = Parsed(R"({"a": {"b": "text", "c": true}})");
  FieldReader reader(json);
  reader.ReadObject("a", [](FieldReader& inner) {
    EXPECT_EQ(inner.Text("b"), "text");
    EXPECT_TRUE(inner.Flag("c"));
    EXPECT_FALSE(inner.Flag("absent"));
    EXPECT_EQ(inner.RequireText("absent"), "");
  });
  EXPECT_EQ(ErrorMessage(reader), "a.absent: expected a string that is not empty, found nothing");
}

TEST(FieldReaderTest, ObjectsThatAreNoneAreErrors) {
  const JsonValue json = Parsed(R"({"a": 5, "b": null})");
  FieldReader reader(json);
  reader.ReadObject("b", [](FieldReader&) { FAIL(); });
  EXPECT_EQ(ErrorMessage(reader), "");
  reader.ReadObject("a", [](FieldReader&) { FAIL(); });
  EXPECT_EQ(ErrorMessage(reader), "a: expected an object, found 5");
}

TEST(FieldReaderTest, ListsEndAtTheFirstError) {
  const JsonValue json = Parsed(R"({"a": [1, 2, "x", 3], "b": {"c": 1}})");
  FieldReader reader(json, "body");
  std::vector<std::int64_t> read;
  const auto take = [&](const JsonValue& item, const std::string& path) {
    const std::optional<std::int64_t> number = reader.ToInteger(item, path, {});
    if (number) read.push_back(*number);
  };
  reader.ReadList("absent", "a list", take);
  reader.ReadList("a", "a list", take);
  EXPECT_THAT(read, ElementsAre(1, 2));
  EXPECT_EQ(ErrorMessage(reader), "body.a[2]: expected an integer of 64 bits, found \"x\"");
  FieldReader other(json);
  other.ReadList("b", "a list of numbers", take);
  EXPECT_EQ(ErrorMessage(other), "b: expected a list of numbers, found an object");
  EXPECT_THAT(read, ElementsAre(1, 2));
}

TEST(FieldReaderTest, RefusesUnknownAndMissingFields) {
  const JsonValue json = Parsed(R"({"a": 1, "misspelt": 2})");
  EXPECT_EQ(ErrorMessage(FieldReader(json, "", {"a", "b"})),
            "misspelt: expected one of the fields a, b, found \"misspelt\"");
  FieldReader reader(json, "", {"a", "misspelt"});
  double number = 0;
  reader.RequireNumber("a", {0, 1}, &number);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(ErrorMessage(reader), "");
  EXPECT_EQ(reader.Require("b"), nullptr);
  EXPECT_EQ(ErrorMessage(reader), "b: expected a value, found nothing");
}

TEST(FieldReaderTest, ParsesTheObjectOfAFile) {
  EXPECT_TRUE(ParseJsonObject("{}", "f"));
  EXPECT_EQ(ParseJsonObject("[]", "f").error().message, "f: expected a JSON object, found a list");
  EXPECT_FALSE(ParseJsonObject(R"({"a": NaN})", "f"));
}

}  // namespace
}  // namespace fathom::json
