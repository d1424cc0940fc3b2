// Requests of the three chat APIs as DeepSeek's own converter shows them to the model:
// data/encoding/recipe_cases.jsonl (tests/shared/README.md).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

const Api& ApiOf(const Json& name) {
  if (name == "responses") return kResponses;
  return name == "messages" ? kMessages : kChatCompletions;
}

class RecipeCasesTest : public testing::ApiModelTest {
 protected:
  void SetUp() override {
    model_.profile = *FindProfile("v4-0731");
    model_.limits.max_context = 1 << 20;
  }
};

// Special tokens that a client wrote are text to both, so prompts are compared as text.
TEST_F(RecipeCasesTest, PromptsAreEqual) {
  const auto path = testing::SharedData("data/encoding/recipe_cases.jsonl");
  ASSERT_TRUE(path);
  std::istringstream lines(testing::ReadFile(*path));
  int n_compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json recipe = Json::parse(line, nullptr, false);
    SCOPED_TRACE(recipe["id"].get<std::string>());
    const ApiResult<ApiCall> call = ApiOf(recipe["api"]).prepare(recipe["request"].dump(), model_);
    ASSERT_TRUE(call) << call.error().message;
    EXPECT_EQ(*tokenizer_.Decode(call->requests[0].prompt), recipe["prompt"].get<std::string>());
    ++n_compared;
  }
  EXPECT_EQ(n_compared, 174);
}

}  // namespace
}  // namespace fathom::api
