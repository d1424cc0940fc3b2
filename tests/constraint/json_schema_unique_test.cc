// uniqueItems, read by the matcher: byte by byte, and without dead ends.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/schema/json_schema.h"
#include "tests/constraint/compiled_schema.h"
#include "tests/constraint/grammar_reader.h"

namespace fathom::constraint {
namespace {

GrammarReader MakeReader(std::string_view schema) {
  auto grammar = std::make_unique<Grammar>();
  JsonSchemaCompiler compiler(*grammar, {.strict = true});
  const ConstraintResult<ExpressionId> value = compiler.Value(testing::ParseSchema(schema));
  EXPECT_TRUE(value) << schema << value.error().message;
  if (value) grammar->start = *value;
  return GrammarReader(std::move(grammar));
}

void ExpectReads(std::string_view schema, const std::vector<std::string>& accepted,
                 const std::vector<std::string>& refused) {
  GrammarReader reader = MakeReader(schema);
  for (const std::string& text : accepted) EXPECT_TRUE(reader.Accepts(text)) << schema << text;
  for (const std::string& text : refused) EXPECT_FALSE(reader.Accepts(text)) << schema << text;
}

TEST(JsonSchemaUnique, Strings) {
  ExpectReads(R"({"items":{"type":"string"},"type":"array","uniqueItems":true})",
              {"[]", R"(["a","ab","b"])"}, {R"(["a","a"])", R"(["a","b","a"])"});
  ExpectReads(
      R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":5,)"
      R"("uniqueItems":true,"items":{"type":"string","minLength":1}}]})",
      {R"("a")", R"(["a","b"])"}, {R"(["a","a"])", R"([""])", R"(["a","b","a"])"});
  ExpectReads(
      R"({"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[a-z]+$"}})",
      {R"(["a","ab"])"}, {R"(["a","a"])"});
  std::string list;
  for (int i = 0; i < 100; ++i) list += (i > 0 ? ",\"n" : "\"n") + std::to_string(i) + "\"";
  ExpectReads(R"({"type":"array","uniqueItems":true,"items":{"enum":[)" + list + "]}}",
              {R"(["n1","n12"])", "[" + list + "]"}, {R"(["n12","n12"])", R"(["n1","n2","n1"])"});
}

TEST(JsonSchemaUnique, Objects) {
  ExpectReads(R"({"type":"array","uniqueItems":true,"items":{"type":"object","properties":)"
              R"({"b":{"type":"string"},"a":{"type":"integer"}},"additionalProperties":false}})",
              {R"([{},{"a":1},{"b":"x"},{"b":"x","a":1}])"},
              {R"([{"a":1},{"a":1}])", R"([{},{}])", R"([{"b":"x","a":1},{"b":"x","a":1}])"});
  // Undeclared keys have one order, so that equal objects have equal texts.
  ExpectReads(R"({"type":"array","uniqueItems":true,"items":{"properties":{"m":{}}}})",
              {R"([{"m":1,"a":2,"z":3},{"a":2,"z":3},1,"a",[1],[1,2],[[1]],null])"},
              {R"([{"z":1,"a":2}])", R"([{"a":1,"a":2}])", R"([{"a":2,"m":1}])",
               R"([{"m":1,"a":2},{"m":1,"a":2}])", "[1,1.0]", "[[1],[1]]", R"(["a","\u0061"])"});
  ExpectReads(R"({"type":"array","uniqueItems":true})", {"[1,true,\"1\",[1,1]]", "[{},[]]"},
              {"[1,1]", "[{},{}]", "[[ ],[]]", "[[1,{\"a\":[]}],[1,{\"a\":[]}]]"});
}

// Branches with other keys take the keys of all branches in one order.
TEST(JsonSchemaUnique, BranchesShareTheOrderOfKeys) {
  const std::string schema =
      R"({"type":"array","uniqueItems":true,"items":{"type":"object","anyOf":[)"
      R"({"properties":{"a":{"type":"integer"}},"required":["a"]},)"
      R"({"properties":{"b":{"type":"string"}},"required":["b"]}]}})";
  ExpectReads(schema, {R"([{"a":1,"b":"x"},{"a":1},{"b":"x"},{"a":"y","b":"x"}])"},
              {R"([{"b":"x","a":1}])", R"([{"a":1,"b":"x"},{"a":1,"b":"x"}])", R"([{"a":"y"}])"});
}

TEST(JsonSchemaUnique, NestsAndRecurs) {
  const std::string tree = R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","maxItems":2,)"
                           R"("uniqueItems":true,"items":{"$ref":"#/$defs/t"}}}})";
  ExpectReads(tree, {"[]", "[[],[[]]]", "[[[],[[]]],[]]"}, {"[[],[]]", "[[[]],[[]]]"});
}

// Items with few values: the last one that is left can be ended, and no more begun.
TEST(JsonSchemaUnique, LeavesNoDeadEnds) {
  GrammarReader reader =
      MakeReader(R"({"type":"array","uniqueItems":true,"items":{"type":"object","properties":)"
                 R"({"x":{"type":"boolean"}},"additionalProperties":false}})");
  EXPECT_TRUE(reader.Begins(R"([{"x":true},{)"));
  EXPECT_FALSE(reader.Begins(R"([{"x":true},{"x":t)"));
  EXPECT_FALSE(reader.Begins(R"([{"x":true},{},{})"));
  EXPECT_TRUE(reader.Accepts(R"([{"x":true},{},{"x":false}])"));
  EXPECT_FALSE(reader.Begins(R"([{"x":true},{},{"x":false},)"));
  EXPECT_FALSE(reader.Begins(R"([{"x":true},{"x":false},{"x)"));
}

// Places that must be filled need more values than there are places in front of them.
TEST(JsonSchemaUnique, MinimumNeedsValues) {
  const auto error = [](const std::string& schema) {
    return testing::CompiledSchema(schema).Error();
  };
  EXPECT_EQ(error(R"({"type":"array","uniqueItems":true,"minItems":3,"items":{"type":"boolean"}})"),
            "unsatisfiable_schema  ");
  EXPECT_EQ(error(R"({"type":"array","uniqueItems":true,"minItems":4,"items":{"type":"object",)"
                  R"("properties":{"x":{"type":"boolean"}},"additionalProperties":false}})"),
            "unsupported_schema  uniqueItems");
  ExpectReads(R"({"type":"array","uniqueItems":true,"minItems":2,"items":{"type":"object"}})",
              {R"([{},{"a":1}])"}, {"[{}]", "[{},{}]"});
  ExpectReads(R"({"type":"array","uniqueItems":true,"prefixItems":[{"const":"a"},{"const":"b"}],)"
              R"("items":false})",
              {R"(["a","b"])", R"(["a"])"}, {R"(["a","a"])"});
}

}  // namespace
}  // namespace fathom::constraint
