// CompiledSchema: a schema and what it accepts, for tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/schema/json_schema.h"
#include "json/json_value.h"
#include "tests/constraint/naive_recognizer.h"

namespace fathom::testing {

inline JsonValue ParseSchema(std::string_view text) {
  Result<JsonValue> schema = ParseJson(text);
  EXPECT_TRUE(schema) << text;
  return schema ? std::move(*schema) : JsonValue();
}

class CompiledSchema {
 public:
  explicit CompiledSchema(std::string_view schema, JsonSchemaOptions options = {.strict = true})
      : compiler_(grammar_, std::move(options)), recognizer_(grammar_) {
    ConstraintResult<ExpressionId> value = compiler_.Value(ParseSchema(schema));
    if (value) {
      grammar_.start = *value;
    } else {
      error_ = std::move(value.error());
    }
  }

  bool ok() const { return !error_; }
  // The code of the error, its first pointer and keyword: "unsupported_schema /a/b not"; or "".
  std::string Error() const {
    if (!error_) return "";
    if (error_->issues.empty()) return std::string(Name(error_->code));
    const ConstraintIssue& issue = error_->issues[0];
    return std::string(Name(error_->code)) + " " + issue.pointer + " " + issue.keyword;
  }
  const std::vector<std::string>& relaxed() const { return compiler_.relaxed(); }
  bool Accepts(std::string_view text) {
    EXPECT_TRUE(ok()) << Error();
    return ok() && recognizer_.Accepts(text);
  }

 private:
  Grammar grammar_;
  JsonSchemaCompiler compiler_;
  NaiveRecognizer recognizer_;
  std::optional<ConstraintError> error_{};
};

// A schema with texts that it accepts and texts that it refuses.
inline void ExpectTexts(std::string_view schema, const std::vector<std::string>& accepted,
                        const std::vector<std::string>& refused,
                        JsonSchemaOptions options = {.strict = true}) {
  CompiledSchema compiled(schema, std::move(options));
  ASSERT_TRUE(compiled.ok()) << schema << ": " << compiled.Error();
  for (const std::string& text : accepted) EXPECT_TRUE(compiled.Accepts(text)) << schema << text;
  for (const std::string& text : refused) EXPECT_FALSE(compiled.Accepts(text)) << schema << text;
}

}  // namespace fathom::testing
