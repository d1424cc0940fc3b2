// uniqueItems, read by the matcher: byte by byte, and without dead ends.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/json_schema.h"
#include "tests/constraint/compiled_schema.h"
#include "tests/constraint/grammar_reader.h"

namespace fathom {
namespace {

GrammarReader ReaderOf(std::string_view schema) {
  auto grammar = std::make_unique<Grammar>();
  JsonSchemaCompiler compiler(*grammar, {.strict = true});
  const ConstraintResult<ExpressionId> value = compiler.Value(testing::SchemaOf(schema));
  EXPECT_TRUE(value) << schema << value.error().message;
  if (value) grammar->start = *value;
  return GrammarReader(std::move(grammar));
}

void ExpectReads(std::string_view schema, const std::vector<std::string>& accepted,
                 const std::vector<std::string>& refused) {
  GrammarReader reader = ReaderOf(schema);
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

}  // namespace
}  // namespace fathom
