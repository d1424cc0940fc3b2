// Tools that the messages of a conversation find, add and take away: the prompt that shows them,
// and the calls that the answer may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kSearch = R"({"name": "ToolSearch", "input_schema": {"type": "object"}})";
constexpr const char* kFetch =
    R"({"name": "WebFetch", "description": "Fetches.", "input_schema": {"type": "object"},
        "defer_loading": true})";
constexpr const char* kFetchShown =
    R"({"name": "WebFetch", "description": "Fetches.", "parameters": {"type": "object"}})";
constexpr const char* kAsked = R"({"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ToolSearch",
                                       "input": {}}]})";

std::string Found(const std::string& names) {
  return R"({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [)" +
         names + "]}]}";
}

std::string Reference(const std::string& name) {
  return R"({"type": "tool_reference", "tool_name": ")" + name + R"("})";
}

class DeferredToolsTest : public testing::ApiModelTest {
 protected:
  DeferredToolsTest() { model_.limits.max_context = 8192; }

  ApiCall Prepare(const std::string& messages, const std::string& tools,
                  const std::string& fields = "") const {
    const ApiResult<ApiCall> call = kMessages.prepare(
        R"({"messages": [)" + messages + R"(], "tools": [)" + tools + "]" + fields + "}", model_);
    EXPECT_TRUE(call) << messages << ": " << (call ? "" : call.error().message);
    return call ? *call : ApiCall();
  }
  std::string Prompt(const ApiCall& call) const {
    return call.requests.empty() ? "" : *tokenizer_.Decode(call.requests[0].prompt);
  }
  static std::vector<std::string> Callable(const ApiCall& call) {
    std::vector<std::string> names;
    for (const ToolSchema& tool :
         testing::SpecFrom(call.requests.at(0).sampling.constraint).tools.tools) {
      names.push_back(tool.name);
    }
    return names;
  }
};

const std::string kUser = R"({"role": "user", "content": "Hi"})";
const std::string kBoth = std::string(kSearch) + ", " + kFetch;

TEST_F(DeferredToolsTest, AreNotInTheHead) {
  const ApiCall call = Prepare(kUser, kBoth);
  EXPECT_EQ(Prompt(call), Prompt(Prepare(kUser, kSearch)));
  EXPECT_THAT(Callable(call), ElementsAre("ToolSearch"));
}

TEST_F(DeferredToolsTest, AreShownWhereTheyAreFound) {
  const std::string found = kAsked + std::string(", ") + Found(Reference("WebFetch"));
  const ApiCall call = Prepare(found, kBoth);
  EXPECT_THAT(Prompt(call),
              HasSubstr(std::string("<tool_result>") + kFetchShown + "</tool_result>"));
  EXPECT_THAT(Callable(call), ElementsAre("ToolSearch", "WebFetch"));
  // The prompt before the search is the beginning of the one behind it, whether the client offers
  // the tool from the beginning or once it is found.
  const std::string before = Prompt(Prepare(kUser, kSearch));
  const std::string head = before.substr(0, before.find("Hi"));
  EXPECT_THAT(Prompt(call), StartsWith(head));
}

TEST_F(DeferredToolsTest, ASecondReferenceIsTheName) {
  const std::string found =
      kAsked + std::string(", ") +
      Found(Reference("WebFetch") + ", " + Reference("WebFetch") + ", " + Reference("Unknown"));
  EXPECT_THAT(Prompt(Prepare(found, kBoth)),
              HasSubstr(std::string(kFetchShown) + "\n\nWebFetch\n\nUnknown</tool_result>"));
}

TEST_F(DeferredToolsTest, AChoiceMayDemandOneThatWasNotFound) {
  const ApiCall call =
      Prepare(kUser, kBoth, R"(, "tool_choice": {"type": "tool", "name": "WebFetch"})");
  EXPECT_THAT(Callable(call), ElementsAre("WebFetch"));
}

TEST_F(DeferredToolsTest, AreShownAtOnceWhereThisServerWouldSearch) {
  const std::string search =
      R"({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}, )";
  const ApiCall call = Prepare(kUser, search + kFetch);
  EXPECT_THAT(Prompt(call), HasSubstr("WebFetch"));
  EXPECT_THAT(Callable(call), ElementsAre("WebFetch"));
}

TEST_F(DeferredToolsTest, AreShownAtOnceWhereNoToolIsLeftToSearch) {
  const ApiCall call = Prepare(kUser, kFetch, R"(, "tool_choice": {"type": "any"})");
  EXPECT_THAT(Prompt(call), HasSubstr(kFetchShown));
  EXPECT_THAT(Callable(call), ElementsAre("WebFetch"));
}

TEST_F(DeferredToolsTest, AReferenceToAToolOfTheHeadIsTheName) {
  const std::string found = kAsked + std::string(", ") + Found(Reference("ToolSearch"));
  EXPECT_THAT(Prompt(Prepare(found, kBoth)), HasSubstr("<tool_result>ToolSearch</tool_result>"));
}

TEST_F(DeferredToolsTest, ThePlaceholderIsNotShown) {
  const std::string placeholder = R"(, {"name": "DeferredToolPlaceholder", "input_schema": {}})";
  const ApiCall call = Prepare(kUser, kSearch + placeholder);
  EXPECT_EQ(Prompt(call), Prompt(Prepare(kUser, kSearch)));
  EXPECT_THAT(Callable(call), ElementsAre("ToolSearch"));
}

TEST_F(DeferredToolsTest, SystemMessagesAddTools) {
  const std::string added = kUser + R"(, {"role": "assistant", "content": "a"},
      {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition",
          "definition": {"name": "f", "input_schema": {"type": "object"}}}}]})";
  const ApiCall call = Prepare(added, kSearch);
  EXPECT_THAT(Prompt(call),
              HasSubstr("This tool can be called from now on:\n"
                        R"({"name": "f", "description": "", "parameters": {"type": "object"}})"));
  EXPECT_THAT(Callable(call), ElementsAre("ToolSearch", "f"));
  const std::string referred = kUser + R"(, {"role": "system", "content": [
      {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "WebFetch"}}]})";
  EXPECT_THAT(Prompt(Prepare(referred, kBoth)), HasSubstr(kFetchShown));
  EXPECT_THAT(Callable(Prepare(referred, kBoth)), ElementsAre("ToolSearch", "WebFetch"));
}

TEST_F(DeferredToolsTest, SystemMessagesTakeToolsAway) {
  const std::string two = std::string(kSearch) + R"(, {"name": "g", "input_schema": {}})";
  const std::string removed = kUser + R"(, {"role": "system", "content": [
      {"type": "tool_removal", "tool": {"type": "tool_reference", "tool_name": "g"}}]})";
  const ApiCall call = Prepare(removed, two);
  const std::string before = Prompt(Prepare(kUser, two));
  EXPECT_THAT(Prompt(call), StartsWith(before.substr(0, before.find("Hi") + 2)));
  EXPECT_THAT(Prompt(call), HasSubstr("The tool g cannot be called any more."));
  EXPECT_THAT(Callable(call), ElementsAre("ToolSearch"));
  const std::string given_back = removed + R"(, {"role": "user", "content": "b"},
      {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "g"}}]})";
  EXPECT_THAT(Callable(Prepare(given_back, two)), ElementsAre("ToolSearch", "g"));
}

TEST_F(DeferredToolsTest, CountedTokensAreThoseOfThePrompt) {
  const std::string messages = kAsked + std::string(", ") + Found(Reference("WebFetch"));
  const std::string body = R"({"messages": [)" + messages + R"(], "tools": [)" + kBoth + "]}";
  EXPECT_EQ(*CountMessageTokens(body, model_),
            std::ssize(Prepare(messages, kBoth).requests[0].prompt));
}

}  // namespace
}  // namespace fathom::api
