// fathom constrain: compiles, tests texts, and measures folders of schemas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class ConstrainTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }

  // The result of `fathom constrain --bench` for one schema and one instance of it.
  Json ResultOf(const std::string& schema, const std::string& data) const {
    Write("a.json", R"({"schema":)" + schema + R"(,"tests":[{"valid":true,"data":)" + data + "}]}");
    const ProgramRun run =
        RunProgram({"constrain", "--bench", directory_.path().string(), "--strict", "--json"});
    const Json report = Json::parse(run.out, nullptr, false);
    EXPECT_EQ(report.value("compile", ""), "ok") << run.out << run.error;
    return report["results"][0];
  }

  TemporaryDirectory directory_;
};

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},)"
    R"( "age": {"type": "integer", "minimum": 0}}, "required": ["name"]})";

TEST_F(ConstrainTest, TestsEachLine) {
  const std::string schema = Write("person.json", kPerson);
  const std::string texts = Write("texts.jsonl",
                                  "{\"name\":\"Bob\",\"age\":7}\n"
                                  "{\"name\":\"Robert\"}\n"
                                  "{\"age\":7}\n"
                                  "{\"name\":\"Bob\"\n");
  const ProgramRun run =
      RunProgram({"constrain", "--schema", schema, "--test", texts, "--strict", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const Json object = Json::parse(run.out);
  EXPECT_EQ(object["compile"], "ok");
  EXPECT_GT(object["compile_us"], 0);
  ASSERT_EQ(object["results"].size(), 4u);
  const bool accepted[] = {true, false, false, false};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(object["results"][i]["accepted"], accepted[i]) << i;
    EXPECT_FALSE(object["results"][i]["mask_us"].empty()) << i;
  }
  EXPECT_EQ(object["results"][3]["refused_byte"], 13) << "the end comes too early";
}

TEST_F(ConstrainTest, SaysWhyAConstraintIsRefused) {
  const std::string schema =
      Write("schema.json", R"({"properties": {"a": {"$ref": "https://example.com/x"}}})");
  const ProgramRun run = RunProgram({"constrain", "--schema", schema, "--strict", "--json"});
  EXPECT_EQ(run.exit_code, 1);
  const Json object = Json::parse(run.out);
  EXPECT_EQ(object["compile"], "unsupported");
  EXPECT_EQ(object["errors"][0]["pointer"], "/properties/a");
  EXPECT_EQ(object["errors"][0]["keyword"], "$ref");

  const ProgramRun regex = RunProgram({"constrain", "--regex", "(?<=a)b", "--check"});
  EXPECT_EQ(regex.exit_code, 1);
  EXPECT_THAT(regex.out, HasSubstr("unsupported"));
  const ProgramRun grammar =
      RunProgram({"constrain", "--grammar", Write("g.gbnf", "root ::= a\n"), "--check"});
  EXPECT_EQ(grammar.exit_code, 1);
  EXPECT_THAT(grammar.out, HasSubstr("1:10"));
}

TEST_F(ConstrainTest, MeasuresAFolder) {
  Write("a.json", R"({"schema": )" + std::string(kPerson) +
                      R"(, "tests": [{"data": {"age": 1, "name": "x"}, "valid": true},)"
                      R"( {"data": {"age": -1, "name": "x"}, "valid": false}]})");
  Write("b.json", R"({"schema": {"anyOf": [{"required": ["x"], "properties": {"b": true}},)"
                  R"( {"type": "null"}]}, "tests": [{"data": {"x": 1, "b": 2}, "valid": true}]})");
  const ProgramRun run =
      RunProgram({"constrain", "--bench", directory_.path().string(), "--strict", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const std::size_t end = run.out.find('\n');
  const Json first = Json::parse(run.out.substr(0, end));
  const Json second = Json::parse(run.out.substr(end + 1));
  EXPECT_EQ(first["file"], "a.json");
  EXPECT_EQ(first["results"][0]["accepted"], true) << "keys in the order of the schema";
  EXPECT_EQ(first["results"][1]["accepted"], false);
  EXPECT_EQ(second["file"], "b.json");
  EXPECT_EQ(second["results"][0]["accepted"], true);

  const ProgramRun sums = RunProgram({"constrain", "--bench", directory_.path().string()});
  EXPECT_THAT(sums.out, HasSubstr("2 schemas: 2 compiled, 2 passing; 0 valid texts refused, 0"));
}

// Two branches with opposite orders of keys: the second one's order is found by insertion.
TEST_F(ConstrainTest, FindsTheOrderOfManyKeys) {
  std::string ascending;
  std::string descending;
  std::string data;
  for (char c = 'a'; c < 'a' + 16; ++c) {
    const std::string name(1, c);
    ascending += (ascending.empty() ? "\"" : ",\"") + name + "\":{\"type\":\"integer\"}";
    descending =
        "\"" + name + "\":{\"type\":\"string\"}" + (descending.empty() ? "" : "," + descending);
    data += (data.empty() ? "\"" : ",\"") + name + "\":\"x\"";
  }
  const auto object = [](const std::string& properties) {
    return "{\"type\":\"object\",\"properties\":{" + properties +
           "},\"required\":[\"a\"],\"additionalProperties\":false}";
  };
  Write("a.json", "{\"schema\":{\"oneOf\":[" + object(ascending) + "," + object(descending) +
                      "]},\"tests\":[{\"valid\":true,\"data\":{" + data + "}}]}");
  const ProgramRun run =
      RunProgram({"constrain", "--bench", directory_.path().string(), "--strict"});
  EXPECT_THAT(run.out, HasSubstr("1 schemas: 1 compiled, 1 passing; 0 valid texts refused"));
}

// Which order of the keys of `k` is the right one shows at the value of `z` alone.
TEST_F(ConstrainTest, FindsOrdersThatShowLater) {
  const auto branch = [](const std::string& inner, const std::string& z) {
    return R"({"properties":{"k":{"properties":)" + inner +
           R"(,"required":["x","y"],"additionalProperties":false},"z":{"const":)" + z +
           R"(}},"required":["k","z"],"additionalProperties":false})";
  };
  const std::string schema = R"({"oneOf":[)" + branch(R"({"x":true,"y":true})", "1") + "," +
                             branch(R"({"y":true,"x":true})", "2") + "]}";
  for (const char* z : {"1", "2"}) {
    const std::string data = R"({"z":)" + std::string(z) + R"(,"k":{"x":1,"y":2}})";
    EXPECT_EQ(ResultOf(schema, data)["accepted"], true) << data;
  }
  // Found by schema_fuzz_test.py: the second item is one that `contains` does not count.
  const std::string counted = R"({"contains":{"properties":{"a":{"const":{"y":1,"x":2}}},)"
                              R"("required":["a","b"]},"maxContains":1})";
  EXPECT_EQ(ResultOf(counted, R"([{"a":{"y":1,"x":2},"b":1},{"a":{"y":1,"x":2}}])")["accepted"],
            true);
}

TEST_F(ConstrainTest, NamesKeysInTheOrderOfTheSchema) {
  std::string properties;
  std::string data;
  for (char c = 'a'; c <= 'u'; ++c) {
    properties += (properties.empty() ? "\"" : ",\"") + std::string(1, c) + "\":true";
    data += (data.empty() ? "\"" : ",\"") + std::string(1, c) + "\":1";
  }
  const std::string dependencies[] = {
      R"("dependencies":{"t":{"required":["s"]},"p":{"required":["c"]}})",
      R"("dependencies":{"t":["s"],"p":["c"],"k":["b"]})",
      R"("dependentRequired":{"t":["s"],"p":["c"]},"dependentSchemas":{"k":{"required":["b"]}})"};
  for (const std::string& named : dependencies) {
    const std::string schema =
        "{" + named + R"(,"type":"object","properties":{)" + properties + "}}";
    EXPECT_EQ(ResultOf(schema, "{" + data + "}")["accepted"], true) << named;
  }
}

TEST_F(ConstrainTest, SaysWhereTheSearchForAnOrderEnds) {
  const std::string schema = R"({"properties":{"a":{"type":"object"},"b":{"type":"integer"}}})";
  std::string many;
  for (char c = 'a'; c <= 'l'; ++c) {
    many += (many.empty() ? "\"" : ",\"") + std::string(1, c) + "\":1";
  }
  const Json undecided = ResultOf(schema, R"({"a":{)" + many + R"(},"b":"x"})");
  EXPECT_EQ(undecided["accepted"], false);
  EXPECT_EQ(undecided["undecided"], true);
  const Json refused = ResultOf(schema, R"({"a":{"c":1,"d":2},"b":"x"})");
  EXPECT_EQ(refused["accepted"], false);
  EXPECT_FALSE(refused.contains("undecided")) << "every order was tried";
  const ProgramRun sums = RunProgram({"constrain", "--bench", directory_.path().string()});
  EXPECT_THAT(sums.out, HasSubstr("1 valid texts refused, 0 undecided"));
  ResultOf(schema, R"({"a":{)" + many + R"(},"b":"x"})");
  const ProgramRun other = RunProgram({"constrain", "--bench", directory_.path().string()});
  EXPECT_THAT(other.out, HasSubstr("0 valid texts refused, 1 undecided"));
}

}  // namespace
}  // namespace fathom::testing
