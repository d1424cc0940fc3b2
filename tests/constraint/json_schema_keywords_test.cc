// Keywords, one by one.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "constraint/schema/number_shape.h"
#include "tests/constraint/compiled_schema.h"

namespace fathom::constraint {
namespace {

using testing::CompiledSchema;
using testing::ExpectTexts;

TEST(JsonSchemaValue, AnyValueIsJson) {
  ExpectTexts(
      "{}",
      {"null", "true", "-12.5e+3", R"("a\u00e9\n\"\ud83d\ude0e")", "[]", "[1, [2]]",
       R"({"a" : {"a":[]} , "b":1})", "{\n  \"a\": 1\n}", "-0"},
      {"", " null", "null ", "nul", "01", "1.", ".5", "+1", R"("\ud83d")", R"("\ude0e")", "\"\n\"",
       R"({"a":1,"a":2})", R"({"a":1,})", "[1,]", "\"\xff\"", "\"\xc0\x80\"", "[   1]"});
}

TEST(JsonSchemaValue, LayoutsDiffer) {
  const std::string schema = R"({"items":{"type":"boolean"}})";
  ExpectTexts(schema, {"[true,false]"}, {"[true, false]", "[ true]"},
              {.layout = {.whitespace = JsonWhitespace::kCompact}});
  ExpectTexts(schema, {"[true, false]", R"({"a": 1})"}, {"[true,false]", R"({"a":1})"},
              {.layout = {.whitespace = JsonWhitespace::kPython}});
  ExpectTexts(schema, {"[true,    false \r\n\n]"}, {},
              {.layout = {.whitespace = JsonWhitespace::kAny}});
  ExpectTexts(R"({"x-fathom":{"whitespace":"compact"},"type":"array"})", {"[1,2]"}, {"[1, 2]"});
}

TEST(JsonSchemaNumbers, Bounds) {
  ExpectTexts(R"({"type":"integer","minimum":-12,"maximum":105})",
              {"-12", "-9", "0", "7", "99", "100", "105"},
              {"-13", "106", "1.0", "-0", "1e1", "00", "110", "1000", "-100"});
  ExpectTexts(R"({"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":2})",
              {"0.51", "0.500001", "1", "1.0", "1.999"}, {"0.5", "0.50", "2", "2.0", "0", "-1"});
  ExpectTexts(R"({"minimum":2,"exclusiveMinimum":true})", {"2.1", "3", "\"a\""}, {"2", "1"});
  ExpectTexts(R"({"maximum":-1.5})", {"-1.5", "-1.50", "-2", "-10"}, {"-1.4", "-1", "0", "1"});
  ExpectTexts(R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"});
  ExpectTexts(R"({"type":"number","maximum":1e400})", {"1", "-7.5"}, {"1e3"});
}

// Readers with doubles take a larger number for infinity, which JSON does not have.
TEST(JsonSchemaNumbers, FreeOnesAreFinite) {
  std::vector<std::string> finite = {"1e99", "-2.5E-07", "0e+0"};
  finite.push_back(std::string(kMaxNumberDigits, '9') + "e99");
  for (const std::string_view schema : {R"({})", R"({"type":"number"})"}) {
    ExpectTexts(schema, finite, {"1e100", "1e309", "-1E+400", "1e-324", "1e001"});
  }
}

// A bound is not rounded to a double.
TEST(JsonSchemaNumbers, DecimalsAreExact) {
  ExpectTexts(R"({"const":0.10000000000000000555})", {"0.10000000000000000555"}, {"0.1"});
  ExpectTexts(R"({"type":"number","maximum":1e-50})", {"0", "0." + std::string(49, '0') + "1"},
              {"0." + std::string(48, '0') + "1"});
  ExpectTexts(R"({"type":"number","exclusiveMinimum":0.29999999999999999999})", {"0.3"},
              {"0.29999999999999999999"});
  ExpectTexts(R"({"enum":[1e2,0.50]})", {"100", "0.5"}, {"1", "0.05"});
}

// Numbers have at most 64 digits before the point and after it.
TEST(JsonSchemaNumbers, NoneIsBetween) {
  for (const char* const schema :
       {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1e-70})",
        R"({"type":"number","exclusiveMinimum":0,"maximum":1e-66})",
        R"({"type":"number","exclusiveMinimum":1e-65,"maximum":1.5e-65})",
        R"({"type":"number","not":{"type":"integer"},"minimum":1e10})"}) {
    EXPECT_EQ(CompiledSchema(schema).Error(), "unsatisfiable_schema  ") << schema;
    ExpectTexts(R"({"properties":{"a":{"const":1},"p":)" + std::string(schema) +
                    R"(},"additionalProperties":false})",
                {R"({"a":1})", "{}"}, {R"({"a":1,"p":0})"});
    ExpectTexts(R"({"anyOf":[{"const":true},)" + std::string(schema) + "]}", {"true"}, {"0", "1"});
  }
  ExpectTexts(R"({"type":"number","exclusiveMinimum":0,"maximum":1e-64})",
              {"0." + std::string(63, '0') + "1"}, {"0"});
}

TEST(JsonSchemaNumbers, TooManyDigitsAreNamed) {
  EXPECT_EQ(CompiledSchema(R"({"const":1e300})").Error(), "unsupported_schema /const ");
  EXPECT_EQ(CompiledSchema(R"({"enum":[2,1e-65]})").Error(), "unsupported_schema /enum/1 ");
  EXPECT_EQ(CompiledSchema(R"({"type":"number","minimum":1e64})").Error(),
            "unsupported_schema  minimum");
  EXPECT_EQ(CompiledSchema(R"({"type":"number","exclusiveMaximum":-1e64})").Error(),
            "unsupported_schema  exclusiveMaximum");
  ExpectTexts(R"({"type":"number","minimum":-1e300,"maximum":1e300})", {"7", "-7.5"}, {"\"a\""});
  CompiledSchema lost(R"({"enum":[2,1e300]})", {});
  EXPECT_TRUE(lost.Accepts("2"));
  EXPECT_EQ(lost.relaxed(), std::vector<std::string>{"/enum/1"});
  CompiledSchema relaxed(R"({"type":"number","const":1e300})", {});
  EXPECT_TRUE(relaxed.Accepts("5"));
  EXPECT_EQ(relaxed.relaxed(), std::vector<std::string>{"/const"});
}

TEST(JsonSchemaNumbers, OthersThanMultiplesHaveAnyLength) {
  ExpectTexts(R"({"type":"integer","not":{"multipleOf":2}})", {"12345678901", "-7"},
              {"12345678902"});
  ExpectTexts(R"({"type":"integer","not":{"multipleOf":7},"minimum":10000000000})", {"10000000001"},
              {"10000000003", "1"});
  ExpectTexts(R"({"type":"integer","minimum":20000000000,"oneOf":[{"multipleOf":3},)"
              R"({"multipleOf":5}]})",
              {"20000000004", "20000000005"}, {"20000000010", "20000000002"});
  ExpectTexts(R"({"type":"number","not":{"multipleOf":0.5}})", {"123456789.125", "0.7"},
              {"0.5", "12345678901", "1.1234567"});
}

TEST(JsonSchemaNumbers, Multiples) {
  ExpectTexts(R"({"multipleOf":0.01})", {"1.25", "3", "0.10", "-0.070", "19.99"},
              {"0.001", "1.255"});
  ExpectTexts(R"({"type":"integer","multipleOf":7})",
              {"0", "7", "-14", "700", "123456789012345677"}, {"1", "8", "701"});
  ExpectTexts(R"({"type":"integer","multipleOf":1500})", {"0", "1500", "-3000", "4500"},
              {"500", "1000", "150"});
  ExpectTexts(R"({"type":"number","multipleOf":2.5,"minimum":1,"maximum":6})", {"2.5", "5", "5.0"},
              {"0", "7.5", "3"});
  EXPECT_EQ(CompiledSchema(R"({"multipleOf":0.123456789})").Error(),
            "unsupported_schema  multipleOf");
}

TEST(JsonSchemaStrings, Lengths) {
  ExpectTexts(R"({"type":"string","minLength":2,"maxLength":3})",
              {R"("ab")", R"("abc")", "\"\xf0\x9f\x98\x80\xc3\xa9\"", R"("\ud83d\ude00\n")"},
              {R"("a")", R"("abcd")", "\"\xf0\x9f\x98\x80\"", R"("\ud83d\ude00")"});
  ExpectTexts(R"({"type":"string","pattern":"^a*$","maxLength":2})", {R"("")", R"("aa")"},
              {R"("aaa")", R"("b")"});
}

TEST(JsonSchemaStrings, OneSpellingOfWhatIsDescribed) {
  ExpectTexts(R"({"enum":["a\"b","\u00e9","\n","\u0001"]})",
              {R"("a\"b")", "\"\xc3\xa9\"", R"("\n")", R"("\u0001")"},
              {R"("\u00e9")", R"("\u000a")", R"("a\u0022b")"});
  ExpectTexts(R"({"pattern":"^[\\/x]$"})", {R"("/")", R"("x")"}, {R"("\/")", R"("\u0078")"});
}

TEST(JsonSchemaStrings, Formats) {
  ExpectTexts(R"({"type":"string","format":"date-time"})", {R"("2024-02-29T23:59:59.5+01:00")"},
              {R"("2023-02-29T23:59:59Z")", R"("2024-02-29")"});
  ExpectTexts(R"({"type":"integer","format":"int32"})", {"2147483647"}, {"2147483648"});
  CompiledSchema unknown(R"({"type":"string","format":"phone"})");
  EXPECT_TRUE(unknown.Accepts("\"x\""));
  EXPECT_EQ(unknown.relaxed(), std::vector<std::string>{"/format"});
}

// The names that pydantic 2.14 gives to the types that it reads texts as.
TEST(JsonSchemaStrings, FormatsOfPydantic) {
  ExpectTexts(
      R"({"type":"string","format":"uuid4"})",
      {R"("936da01f-9abd-4d9d-80c7-02af85c822a8")", R"("936DA01F-9ABD-4D9D-80C7-02AF85C822A8")"},
      {R"("936da01f-9abd-1d9d-80c7-02af85c822a8")", R"("936da01f-9abd-4d9d-c0c7-02af85c822a8")"});
  ExpectTexts(R"({"type":"string","format":"uuid7"})",
              {R"("0192f0c1-2345-7def-8123-456789abcdef")"},
              {R"("936da01f-9abd-4d9d-80c7-02af85c822a8")"});
  ExpectTexts(R"({"type":"string","format":"base64"})",
              {R"("")", R"("Zm9v")", R"("Zm8=")", R"("+/==")"},
              {R"("Zm9")", R"("Zm9v=")", R"("_-==")"});
  ExpectTexts(R"({"type":"string","format":"base64url"})", {R"("_-==")"}, {R"("+/==")"});
}

TEST(JsonSchemaObjects, KeysComeInOrder) {
  const std::string schema =
      R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},)"
      R"("required":["a","z"]})";
  ExpectTexts(schema, {R"({"b":1,"a":2,"z":null})", R"({"a":2,"z":1,"x":0})", R"({"a":2, "z":1})"},
              {R"({"a":2,"b":1,"z":0})", R"({"b":1,"z":0})", R"({"a":2})", R"({"a":1,"z":1,"z":2})",
               R"({"a":1,"z":1,"b":"x"})", R"({"x":0,"a":2,"z":1})", R"({"a":1.5,"z":1})", "[]"});
  ExpectTexts(schema, {R"({"z":1,"x":2,"a":2,"b":1})", R"({"z":1,"a":2})"},
              {R"({"a":2,"b":1})", R"({"a":2,"z":1,"a":3})", R"({"z":1,"a":2,"b":""})"},
              {.layout = {.key_order = JsonKeyOrder::kAny}});
}

TEST(JsonSchemaObjects, ClosedWhereAsked) {
  const std::string schema = R"({"properties":{"a":{"properties":{"b":{}}}},"required":["a"]})";
  ExpectTexts(schema, {R"({"a":{"b":1}})", R"({"a":{}})"}, {R"({"a":1,"x":1})", R"({"a":{"c":1}})"},
              {.strict = true, .closed_objects = true});
  ExpectTexts(R"({"type":"object","additionalProperties":{"type":"null"}})", {R"({"x":null})"}, {},
              {.strict = true, .closed_objects = true});
}

TEST(JsonSchemaObjects, PatternsSplitKeys) {
  const std::string schema = R"({"patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":5}},)"
                             R"("additionalProperties":{"type":"string"}})";
  ExpectTexts(schema, {R"({"a":1,"xb":"s","ab":7})", R"({"c":"x"})"},
              {R"({"ab":1})", R"({"a":"x"})", R"({"c":1})", R"({"xb":2})"});
  ExpectTexts(R"({"patternProperties":{"^[ab]$":{"type":"null"}},"additionalProperties":false})",
              {R"({"a":null,"b":null})", R"({"b":null})", "{}"}, {R"({"c":null})", R"({"a":1})"});
  ExpectTexts(R"({"propertyNames":{"enum":["x","y"]},"minProperties":1})",
              {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"z":1})"});
}

TEST(JsonSchemaObjects, Counts) {
  ExpectTexts(R"({"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,)"
              R"("minProperties":2,"maxProperties":2})",
              {R"({"a":1,"b":1})", R"({"b":1,"c":1})", R"({"a":1,"c":1})"},
              {R"({"a":1})", R"({"a":1,"b":1,"c":1})", "{}"});
  ExpectTexts(R"({"minProperties":2,"maxProperties":3})",
              {R"({"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"},
              {R"({"a":1})", R"({"a":1,"b":1,"c":1,"d":1})"});
  ExpectTexts(R"({"maxProperties":0})", {"{}", "{ }"}, {R"({"a":1})"});
}

TEST(JsonSchemaObjects, Dependencies) {
  ExpectTexts(R"({"properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})",
              {R"({"a":1,"b":1})", R"({"b":1})", "{}"}, {R"({"a":1})"});
  ExpectTexts(R"({"dependencies":{"a":{"required":["b"]},"c":["a"]}})", {R"({"a":1,"b":1})", "{}"},
              {R"({"a":1})", R"({"c":1})"});
}

TEST(JsonSchemaArrays, ItemsAndCounts) {
  ExpectTexts(R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},)"
              R"("minItems":1,"maxItems":4})",
              {"[1]", R"([1,"a"])", R"([1,"a",null,null])"},
              {"[]", R"(["a"])", "[1,2]", R"([1,"a",1])", R"([1,"a",null,null,null])"});
  ExpectTexts(R"({"items":[{"type":"integer"}],"additionalItems":false})", {"[]", "[1]"},
              {"[1,2]", "[null]"});
  ExpectTexts(R"({"type":"array","minItems":2,"maxItems":1000000})", {"[1,2]", "[1,2,3]"}, {"[1]"});
}

TEST(JsonSchemaArrays, Contains) {
  ExpectTexts(R"({"items":{"type":"integer"},"contains":{"minimum":5},"minContains":2})",
              {"[5,6]", "[1,7,2,8]"}, {"[]", "[5]", "[1,2,5]"});
  ExpectTexts(R"({"contains":{"type":"string"},"maxContains":1,"maxItems":3})",
              {R"(["a"])", R"([1,"a",2])"}, {R"(["a","b"])", "[]", "[1]", R"([1,"a",2,3])"});
}

TEST(JsonSchemaArrays, AMaximumWithinThePrefix) {
  const std::vector<std::string> too_long = {R"([1,2,"a"])", R"([1,"a"])", R"(["a",1])"};
  for (const std::string rest : {"", R"(,"items":{"type":"null"})", R"(,"items":false)"}) {
    const std::string prefix = R"({"type":"array","prefixItems":[{},{},{}],"maxItems":)";
    ExpectTexts(prefix + R"(1,"contains":{"type":"string"})" + rest + "}", {R"(["a"])"}, too_long);
    ExpectTexts(
        prefix + R"(1,"contains":{"type":"string"},"minContains":0,"maxContains":0)" + rest + "}",
        {"[]", "[1]"}, {R"(["a"])", "[1,2]"});
    ExpectTexts(prefix + R"(2,"contains":{"type":"string"},"minContains":2)" + rest + "}",
                {R"(["a","b"])"}, {R"(["a"])", R"(["a","b",1])", R"(["a","b","c"])"});
    ExpectTexts(R"({"allOf":[{"maxItems":1},)" + prefix + R"(3,"contains":{"type":"string"})" +
                    rest + "}]}",
                {R"(["a"])"}, too_long);
  }
  EXPECT_EQ(CompiledSchema(
                R"({"type":"array","prefixItems":[{},{}],"contains":{"const":1},"maxItems":0})")
                .Error(),
            "unsatisfiable_schema  ");
}

TEST(JsonSchemaArrays, UniqueItems) {
  ExpectTexts(R"({"items":{"type":"integer"},"uniqueItems":true})", {"[]", "[1,2,12]"},
              {"[1,1]", "[1,2,1]", "[1.0]"});
  ExpectTexts(R"({"items":{"type":"number"},"uniqueItems":true})", {"[1,1.5,-2]"},
              {"[1,1.0]", "[1.50]", "[0,-0]", "[1e0]"});
  // As many places as values that are no numbers or strings.
  ExpectTexts(R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":2})",
              {"[true,false]", "[false,true]"}, {"[true]", "[true,true]", "[true,false,true]"});
  ExpectTexts(
      R"({"type":"array","items":{"type":["null","boolean"]},"uniqueItems":true,"minItems":3})",
      {"[true,null,false]"}, {"[true,null]", "[null,null,true]"});
  EXPECT_EQ(CompiledSchema(
                R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":3})")
                .Error(),
            "unsatisfiable_schema  ");
  ExpectTexts(R"({"items":{"enum":["a","b"]},"uniqueItems":true,"minItems":2})",
              {R"(["a","b"])", R"(["b","a"])"}, {R"(["a"])", R"(["a","a"])", R"(["a","b","a"])"});
  EXPECT_EQ(CompiledSchema(
                R"({"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"minItems":3})")
                .Error(),
            "unsatisfiable_schema  ");
  CompiledSchema contains(R"({"a":{},"items":{"contains":{"const":1}},"uniqueItems":true})");
  EXPECT_EQ(contains.Error(), "unsupported_schema  uniqueItems");
  CompiledSchema orders(R"({"type":"array","uniqueItems":true,"items":{"anyOf":[)"
                        R"({"properties":{"x":{"properties":{"a":{},"b":{}}}}},)"
                        R"({"properties":{"x":{"properties":{"b":{},"a":{}}}}}]}})");
  EXPECT_EQ(orders.Error(), "unsupported_schema  uniqueItems");
}

// Formats that docs/spec/constrained.md 2.2 does not list are annotations, also where strict.
TEST(JsonSchemaStrings, OtherFormatsAnnotate) {
  CompiledSchema compiled(R"({"type":"string","format":"color","not":{"format":"idn-email"}})");
  EXPECT_EQ(compiled.Error(), "unsatisfiable_schema  ");
  for (const char* format : {"idn-email", "idn-hostname", "color"}) {
    const std::string schema = R"({"type":"string","format":")" + std::string(format) + R"("})";
    CompiledSchema annotated(schema);
    ASSERT_TRUE(annotated.ok()) << annotated.Error();
    EXPECT_EQ(annotated.relaxed(), std::vector<std::string>{"/format"});
    EXPECT_TRUE(annotated.Accepts(R"("(")"));
  }
}

// Draft 7 may assert it; later drafts annotate.
TEST(JsonSchemaStrings, JsonContent) {
  ExpectTexts(R"({"type":"string","contentMediaType":"application/json","maxLength":40})",
              {R"("{\"a\": [1, -2.5e+3, \"x\\n\"]}")", R"("[]")", R"(" null ")", R"("{}")"},
              {R"("")", R"("{:}")", R"("[1,]")", R"("{\"a\"}")", R"("01")", R"("nul")"});
  ExpectTexts(R"({"$schema":"https://json-schema.org/draft/2020-12/schema","type":"string",)"
              R"("contentMediaType":"application/json"})",
              {R"("{:}")"}, {"1"});
}

TEST(JsonSchemaStrings, RegexFormat) {
  ExpectTexts(R"({"type":"string","format":"regex"})",
              {R"x("")x", R"x("^(?:a|b)*?c{2,}$")x", R"x("[^a-z0-9_.-]+\\.js$")x",
               R"x("\\p{L}[\\w-]")x", R"x("(?<n>x(y(z)){1,3})|\\k<n>")x", R"x("a{0}b{7,12}")x",
               R"x("(?=a)b|^(?!c)")x", R"x("^\\/api/(.*)$")x", R"x("[ -~]")x"},
              {R"x("[")x", R"x("(")x", R"x(")")x", R"x("a)b")x", R"x("*a")x", R"x("a**")x",
               R"x("[z-a]")x", R"x("a{3,2}")x", R"x("(?P<n>x)")x", R"x("\\")x", R"x("\\a")x",
               R"x("a|+")x", R"x("(?i)a")x", R"x("[]")x"});
}

TEST(JsonSchemaApplicators, AllOfMerges) {
  ExpectTexts(
      R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"b":{},"a":{"type":"integer"}},)"
      R"("required":["a"]}]})",
      {R"({"a":1,"b":0})", "3"}, {R"({"a":0})", R"({"a":1.5})", R"({"b":1,"a":1})", "{}"});
  EXPECT_EQ(CompiledSchema(R"({"allOf":[{"type":"string"},{"type":"null"}]})").Error(),
            "unsatisfiable_schema  ");
}

TEST(JsonSchemaApplicators, OneOf) {
  ExpectTexts(R"({"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]})",
              {"2", "3", "4"}, {"6", "1", "0"});
  ExpectTexts(
      R"({"oneOf":[{"properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k"]},)"
      R"({"properties":{"k":{"const":"b"}},"required":["k"]}],"type":"object"})",
      {R"({"k":"a","v":1})", R"({"k":"b","v":"x"})"}, {R"({"k":"a","v":"x"})", "{}"});
  const std::string open =
      R"({"oneOf":[{"uniqueItems":true},{"minItems":1,"uniqueItems":true,"items":{"type":"null"}}]})";
  EXPECT_EQ(CompiledSchema(open).Error(), "unsupported_schema  oneOf");
  CompiledSchema relaxed(open, {});
  ASSERT_TRUE(relaxed.ok()) << relaxed.Error();
  EXPECT_EQ(relaxed.relaxed(), std::vector<std::string>{"/oneOf"});
}

// The contrary of a keyword for all members asks for one that breaks it.
TEST(JsonSchemaApplicators, SomeMember) {
  ExpectTexts(R"({"oneOf":[{"type":"object","patternProperties":{"a":{"type":"null"}}},)"
              R"({"type":"object","patternProperties":{"b":{"type":"null"}}}]})",
              {R"({"a":1})", R"({"xbx":1,"a":null})", R"({"ab":null,"a":1,"c":2})"},
              {"{}", R"({"ab":1})", R"({"a":1,"b":1})", R"({"a":null,"b":null})", "1"});
  ExpectTexts(R"({"type":"object","not":{"additionalProperties":{"type":"integer"}}})",
              {R"({"a":"x"})", R"({"a":1,"b":2,"c":null,"d":3})"}, {"{}", R"({"a":1,"b":2})"});
  ExpectTexts(R"({"type":"object","properties":{"k":{"type":"string"},"l":{}},"required":["l"],)"
              R"("not":{"properties":{"l":{}},"patternProperties":{"^x":true},)"
              R"("additionalProperties":{"maxLength":2}}})",
              {R"({"k":"abc","l":"abc"})", R"({"k":"a","l":1,"x":"abc","y":"abc"})"},
              {R"({"l":"abc"})", R"({"k":"ab","l":1})", R"({"k":"ab","l":1,"xy":"abc"})",
               R"({"k":"abc"})"});
  ExpectTexts(R"({"type":"object","not":{"propertyNames":{"pattern":"^a","maxLength":3}}})",
              {R"({"b":1})", R"({"a":1,"abcd":1})"}, {"{}", R"({"a":1,"abc":2})"});
  // Keys may be finitely many.
  ExpectTexts(R"({"type":"object","additionalProperties":false,)"
              R"("patternProperties":{"^[ab]$":{"type":["integer","null"]}},)"
              R"("not":{"patternProperties":{"^[ab]$":{"type":"integer"}}}})",
              {R"({"a":null})", R"({"b":null,"a":1})", R"({"a":null,"b":null})"},
              {"{}", R"({"a":1,"b":2})", R"({"c":null})"});
  // Two demands, met by one member or by two.
  ExpectTexts(R"({"type":"object","allOf":[{"not":{"patternProperties":{"a":{"type":"null"}}}},)"
              R"({"not":{"patternProperties":{"b":{"type":"null"}}}}]})",
              {R"({"ab":1})", R"({"a":1,"b":1})", R"({"b":1,"c":1,"a":1})"},
              {R"({"a":1})", R"({"a":1,"b":null})", "{}", R"({"c":1})"});
  ExpectTexts(R"({"type":"object","not":{"anyOf":[)"
              R"({"properties":{"a":{}},"additionalProperties":false},)"
              R"({"properties":{"b":{}},"additionalProperties":false}]}})",
              {R"({"a":1,"b":1})", R"({"c":1})", R"({"a":1,"c":1})"},
              {"{}", R"({"a":1})", R"({"b":1})"});
  // The contrary of such a contrary.
  ExpectTexts(R"({"type":"object","not":{"not":{"patternProperties":{"a":{"type":"null"}}}}})",
              {"{}", R"({"a":null,"b":1})"}, {R"({"a":1})"});
}

// A relaxed branch does not hide that several branches hold.
TEST(JsonSchemaApplicators, OneOfRelaxedBranches) {
  CompiledSchema relaxed(R"({"type":["null","string"],"oneOf":[{"pattern":"\\bx"},{}]})", {});
  ASSERT_TRUE(relaxed.ok()) << relaxed.Error();
  EXPECT_EQ(relaxed.relaxed(), (std::vector<std::string>{"/oneOf/0/pattern", "/oneOf"}));
  ExpectTexts(R"({"type":["string","null","boolean"],"oneOf":[{"unevaluatedProperties":false},)"
              R"({"unevaluatedItems":false,"maxLength":2}]})",
              {R"("abc")"}, {"null", "true", R"("ab")"});
}

// Branches with many optional properties are told apart by what they require.
TEST(JsonSchemaApplicators, OneOfManyOpenObjects) {
  std::string branches;
  for (int i = 0; i < 5; ++i) {
    const std::string n = std::to_string(i);
    branches += (i == 0 ? "" : ",") + std::string(R"({"type":"object","required":["r)") + n +
                R"("],"properties":{"r)" + n + R"(":{"type":"integer"})";
    for (int j = 0; j < 20; ++j) {
      branches += R"(,"p)" + n + "_" + std::to_string(j) + R"(":{"type":"string"})";
    }
    branches += "}}";
  }
  ExpectTexts(R"({"oneOf":[)" + branches + "]}",
              {R"({"r0":1})", R"({"r4":1,"p4_3":"x","q":1})", R"({"r0":1,"r1":"no"})"},
              {R"({"r0":1,"r1":1})", "{}", R"({"r0":"x"})", R"({"r3":1,"p3_1":1})"});
}

// The cases of a member do not multiply, though there are 2^60 ways to choose among them.
TEST(JsonSchemaApplicators, ManyConditionsOnOneMember) {
  std::string conditions;
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    conditions += (i == 0 ? "" : ",") + std::string(R"({"if":{"properties":{"kind":{"const":"k)") +
                  n + R"("}}},"then":{"properties":{"v)" + n + R"(":{"type":"integer"}},)" +
                  R"("required":["v)" + n + R"("]}})";
  }
  ExpectTexts(
      R"({"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"],)"
      R"("allOf":[)" +
          conditions + "]}",
      {R"({"kind":"k7","v7":1})", R"({"kind":"other"})", R"({"kind":"k0","v0":1,"v1":"x"})"},
      {R"({"kind":"k7"})", R"({"kind":"k7","v7":"x"})", R"({"kind":"k59","v7":1})"});
}

TEST(JsonSchemaApplicators, NotAndConditions) {
  ExpectTexts(R"({"type":["string","integer"],"not":{"enum":["a",3]}})", {R"("b")", "2"},
              {R"("a")", "3", "null"});
  ExpectTexts(R"({"type":"object","not":{"required":["a"]}})", {R"({"b":1})", "{}"},
              {R"({"a":1})"});
  ExpectTexts(R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":{}},"required":["k"],)"
              R"("if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]},)"
              R"("else":{"properties":{"v":false}}})",
              {R"({"k":"x","v":1})", R"({"k":"y"})"}, {R"({"k":"x"})", R"({"k":"y","v":1})"});
  ExpectTexts(R"({"type":"object","not":{"properties":{"a":{}},"additionalProperties":false}})",
              {R"({"b":1})", R"({"a":1,"b":1})"}, {"{}", R"({"a":1})"});
  EXPECT_EQ(
      CompiledSchema(R"({"type":"object","maxProperties":0,"not":{"additionalProperties":false}})")
          .Error(),
      "unsatisfiable_schema  ");
  EXPECT_EQ(CompiledSchema(R"({"properties":{"p":{"not":{"uniqueItems":true}}}})").Error(),
            "unsupported_schema /properties/p not");
}

TEST(JsonSchemaApplicators, Unevaluated) {
  ExpectTexts(R"({"type":"object","properties":{"a":{}},"allOf":[{"properties":{"b":{}}}],)"
              R"("unevaluatedProperties":false})",
              {R"({"a":1,"b":2})", "{}"}, {R"({"c":1})", R"({"a":1,"c":1})"});
  ExpectTexts(
      R"({"type":"object","anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},)"
      R"({"patternProperties":{"^b":{}},"minProperties":1}],)"
      R"("unevaluatedProperties":{"type":"null"}})",
      {R"({"a":1,"b":2,"c":null})", R"({"b":1})"}, {R"({"a":1,"c":1})", R"({"b":1,"a":"x"})"});
  ExpectTexts(
      R"({"prefixItems":[{"type":"string"}],"if":{"prefixItems":[{},{"const":1}],"minItems":2},)"
      R"("then":{"prefixItems":[{},{},{}]},"unevaluatedItems":false})",
      {R"(["a",1,2])", R"(["a",1])", R"(["a"])"}, {R"(["a",2])", R"(["a",1,2,3])"});
}

// Both annotate where they assert nothing (draft 2020-12, 11.2 and 11.3).
TEST(JsonSchemaApplicators, UnevaluatedBesideIfAlone) {
  ExpectTexts(R"({"type":"object","if":{"properties":{"a":true}},"unevaluatedProperties":false})",
              {"{}", R"({"a":1})"}, {R"({"b":1})"});
  ExpectTexts(
      R"({"type":"array","if":{"prefixItems":[true,{"const":1}]},"unevaluatedItems":false})",
      {"[]", "[0]", "[0,1]"}, {"[0,2]", "[0,1,2]"});
}

TEST(JsonSchemaApplicators, UnevaluatedBesideContains) {
  for (const std::string every : {"true", "{}"}) {
    ExpectTexts(R"({"type":"array","unevaluatedItems":false,"contains":)" + every + "}",
                {"[2]", R"([2,"a"])"}, {"[]"});
    ExpectTexts(
        R"({"type":"array","unevaluatedItems":false,"minContains":0,"contains":)" + every + "}",
        {"[]", "[2]"}, {});
    ExpectTexts(R"({"$schema":"https://json-schema.org/draft/2019-09/schema","type":"array",)"
                R"("unevaluatedItems":{"const":1},"contains":)" +
                    every + "}",
                {"[1]"}, {"[]", "[2]"});
    CompiledSchema one(R"({"oneOf":[{"unevaluatedItems":false,"contains":)" + every +
                       R"(},{"type":"array"}]})");
    EXPECT_TRUE(!one.ok() || !one.Accepts("[2]"));
  }
  EXPECT_EQ(CompiledSchema(R"({"unevaluatedItems":false,"contains":{"type":"string"},)"
                           R"("minContains":0})")
                .Error(),
            "unsupported_schema  unevaluatedItems");
}

// Whether the branches exclude each other is asked while the schema that they lead back to is read.
TEST(JsonSchemaReferences, BranchesOfRecursiveSchemas) {
  ExpectTexts(R"({"type":"object","properties":{"run":{"type":"string"},
                  "all":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false,
                  "oneOf":[{"required":["run"]},{"required":["all"]}]})",
              {R"({"run":"x"})", R"({"all":[{"run":"x"},{"all":[]}]})"},
              {"{}", R"({"run":"x","all":[]})", R"({"all":[{}]})"});
  ExpectTexts(R"({"type":"object","required":["all"],"additionalProperties":false,
                  "properties":{"all":{"minItems":1}},
                  "oneOf":[{"properties":{"all":{"items":{"$ref":"#"}}}},
                           {"properties":{"all":{"items":{"type":"string"}}}}]})",
              {R"({"all":["x"]})", R"({"all":[{"all":["x"]}]})"}, {R"({"all":[1]})"});
}

TEST(JsonSchemaReferences, FindPlaces) {
  ExpectTexts(R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},)"
              R"("next":{"$ref":"#/$defs/n"}},"required":["v"],"additionalProperties":false}},)"
              R"("$ref":"#/$defs/n"})",
              {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
              {R"({"v":1,"next":{}})", R"({"v":1,"next":1})"});
  EXPECT_EQ(CompiledSchema(R"({"$ref":"#/$defs/x"})").Error(), "invalid_schema  $ref");
  EXPECT_EQ(CompiledSchema(R"({"items":{"$ref":"http://example.com/a"}})").Error(),
            "unsupported_schema /items $ref");
  EXPECT_EQ(CompiledSchema(R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},)"
                           R"("$ref":"#/$defs/a"})")
                .Error(),
            "invalid_schema /$defs/a $ref");
  // No finite value.
  CompiledSchema endless(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})");
  EXPECT_FALSE(endless.ok() && endless.Accepts(R"({"a":{}})"));
}

// Like $ref where only the root has an identifier; drafts without the keyword differ.
TEST(JsonSchemaReferences, RecursionToTheRoot) {
  const std::string draft = R"("$schema":"https://json-schema.org/draft/2019-09/schema",)";
  const std::string tree = R"("$recursiveAnchor":true,"type":"object","required":["v"],)"
                           R"("properties":{"v":{},"kids":{"items":{"$recursiveRef":"#"}}}})";
  ExpectTexts("{" + draft + tree, {R"({"v":1,"kids":[{"v":2,"kids":[]}]})"},
              {R"({"v":1,"kids":[{"kids":[]}]})"});
  EXPECT_EQ(CompiledSchema("{" + tree).Error(),
            "unsupported_schema /properties/kids/items $recursiveRef");
  EXPECT_EQ(CompiledSchema("{" + draft + R"("$defs":{"a":{"$id":"a.json"}},)" + tree).Error(),
            "unsupported_schema /properties/kids/items $recursiveRef");
}

TEST(JsonSchemaErrors, NamePlaces) {
  EXPECT_EQ(CompiledSchema(R"({"properties":{"a/b":{"minLength":"x"}}})").Error(),
            "invalid_schema /properties/a~1b minLength");
  const std::string contains = R"({"items":{"unevaluatedItems":false,"contains":{"type":"null"}}})";
  EXPECT_EQ(CompiledSchema(contains).Error(), "unsupported_schema /items unevaluatedItems");
  EXPECT_EQ(CompiledSchema(R"({"type":"strin"})").Error(), "invalid_schema  type");
  EXPECT_EQ(CompiledSchema("false").Error(), "unsatisfiable_schema  ");
  CompiledSchema relaxed(contains, {});
  EXPECT_EQ(relaxed.relaxed(), std::vector<std::string>{"/items/unevaluatedItems"});
}

TEST(JsonSchemaForbidden, TextsDoNotOccur) {
  const JsonSchemaOptions options{.forbidden = {"</x", "<y"}};
  ExpectTexts("{}", {R"("< y")", R"("<x")", R"({"a":"<"})"},
              {R"("a</x")", R"("<y")", R"({"<y":1})", R"(["b<y>"])"}, options);
  ExpectTexts(R"({"type":"string","minLength":1,"maxLength":4})", {R"("</y")"},
              {R"("</x")", R"("")"}, options);
  ExpectTexts(R"({"enum":["</x>","b"]})", {R"("b")"}, {R"("</x>")"}, options);
}

}  // namespace
}  // namespace fathom::constraint
