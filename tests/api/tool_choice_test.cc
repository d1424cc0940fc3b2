// tool_choice and strict tools in the three APIs with tools: the same call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/common/api_call.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolChoiceTest : public testing::ApiModelTest {
 protected:
  ToolChoiceTest() { model_.limits.max_context = 8192; }

  ApiCall Prepare(const Api* endpoint, const std::string& fields) const {
    const ApiResult<ApiCall> call = endpoint->prepare(MakeBody(endpoint, fields), model_);
    EXPECT_TRUE(call) << fields << ": " << (call ? "" : call.error().message);
    return call ? *call : ApiCall();
  }
  ApiError ErrorFrom(const Api* endpoint, const std::string& fields) const {
    const ApiResult<ApiCall> call = endpoint->prepare(MakeBody(endpoint, fields), model_);
    EXPECT_FALSE(call) << fields;
    return call ? ApiError() : call.error();
  }

  ConstraintSpec SpecFrom(const Api* endpoint, const std::string& fields) const {
    const ApiCall call = Prepare(endpoint, fields);
    if (call.requests.empty()) return {};
    const ConstraintSpec spec = testing::SpecFrom(call.requests[0].sampling.constraint);
    EXPECT_EQ(call.answers.parser.begins_with_call,
              spec.tools.kind == ToolConstraint::Kind::kRequired);
    return spec;
  }
  static std::vector<std::string> ToolNames(const ConstraintSpec& spec) {
    std::vector<std::string> names;
    for (const ToolSchema& tool : spec.tools.tools) names.push_back(tool.name);
    return names;
  }

  // The names that an answer must call one of; none: it need not.
  std::vector<std::string> Forced(const Api* endpoint, const std::string& fields) const {
    const ConstraintSpec spec = SpecFrom(endpoint, fields);
    const bool is_required = spec.tools.kind == ToolConstraint::Kind::kRequired;
    return is_required ? ToolNames(spec) : std::vector<std::string>();
  }
  // The names that an answer may call, if it need not.
  std::vector<std::string> Allowed(const Api* endpoint, const std::string& fields) const {
    const ConstraintSpec spec = SpecFrom(endpoint, fields);
    const bool is_auto = spec.tools.kind == ToolConstraint::Kind::kAuto;
    return is_auto ? ToolNames(spec) : std::vector<std::string>();
  }

 private:
  static std::string MakeBody(const Api* endpoint, const std::string& fields) {
    return (endpoint == &kResponses ? R"({"input": "Hi", )"
                                    : R"({"messages": [{"role": "user", "content": "Hi"}], )") +
           fields + "}";
  }
};

constexpr const char* kMessagesTools =
    R"("tools": [{"name": "f", "input_schema": {}}, {"type": "web_search_20250305", "name": "w"},
                 {"name": "g", "input_schema": {}}], "tool_choice": )";

constexpr const char* kResponsesTools =
    R"("tools": [{"type": "function", "name": "f"}, {"type": "web_search"},
                 {"type": "custom", "name": "apply_patch"},
                 {"type": "namespace", "name": "files", "tools": [
                     {"type": "function", "name": "f"}, {"type": "function", "name": "read"}]}],
       "tool_choice": )";

TEST_F(ToolChoiceTest, Messages) {
  const auto forced = [&](const std::string& choice) {
    return Forced(&kMessages, kMessagesTools + choice);
  };
  EXPECT_THAT(forced(R"({"type": "auto"})"), ElementsAre());
  EXPECT_THAT(forced(R"({"type": "none"})"), ElementsAre());
  EXPECT_THAT(forced(R"({"type": "any"})"), ElementsAre("f", "g")) << "those that the model knows";
  EXPECT_THAT(forced(R"({"type": "tool", "name": "g"})"), ElementsAre("g"));
  EXPECT_THAT(forced(R"({"type": "tool", "name": "g", "disable_parallel_tool_use": true})"),
              ElementsAre("g"));
}

// The constraint holds the answer to the choice, and the prefix cache keeps the prompt.
TEST_F(ToolChoiceTest, ThePromptShowsAllTools) {
  const auto prompt = [&](const Api* endpoint, const std::string& fields) {
    return *tokenizer_.Decode(Prepare(endpoint, fields).requests.at(0).prompt);
  };
  const std::string chat = R"("tools": [{"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "g"}}])";
  for (const char* choice :
       {R"("required")", R"({"type": "function", "function": {"name": "g"}})"}) {
    EXPECT_EQ(prompt(&kChatCompletions, chat + R"(, "tool_choice": )" + choice),
              prompt(&kChatCompletions, chat));
  }
  for (const char* choice : {R"({"type": "any"})", R"({"type": "tool", "name": "g"})"}) {
    EXPECT_EQ(prompt(&kMessages, kMessagesTools + std::string(choice)),
              prompt(&kMessages, kMessagesTools + std::string(R"({"type": "auto"})")));
  }
  for (const char* choice : {R"("required")", R"({"type": "custom", "name": "apply_patch"})"}) {
    EXPECT_EQ(prompt(&kResponses, kResponsesTools + std::string(choice)),
              prompt(&kResponses, kResponsesTools + std::string(R"("auto")")));
  }
}

TEST_F(ToolChoiceTest, BeginsBehindTheReasoningIfThereIsSome) {
  const std::string any = std::string(kMessagesTools) + R"({"type": "any"}, "thinking": )";
  EXPECT_TRUE(SpecFrom(&kMessages, any + R"({"type": "adaptive"})").in_reasoning);
  EXPECT_FALSE(SpecFrom(&kMessages, any + R"({"type": "disabled"})").in_reasoning);
  const std::string required = R"("tools": [{"type": "custom", "name": "c"}],
      "tool_choice": "required", "reasoning": {"effort": )";
  EXPECT_FALSE(SpecFrom(&kResponses, required + R"("none"})").in_reasoning);
  EXPECT_TRUE(SpecFrom(&kResponses, required + R"("high"})").in_reasoning);
}

TEST_F(ToolChoiceTest, Responses) {
  const auto forced = [&](const std::string& choice) {
    return Forced(&kResponses, kResponsesTools + choice);
  };
  EXPECT_THAT(forced(R"("auto")"), ElementsAre());
  EXPECT_THAT(forced(R"("none")"), ElementsAre());
  EXPECT_THAT(forced(R"("required")"), ElementsAre("f", "apply_patch", "files__f", "files__read"));
  EXPECT_THAT(forced(R"({"type": "function", "name": "f"})"), ElementsAre("f"));
  EXPECT_THAT(forced(R"({"type": "custom", "name": "apply_patch"})"), ElementsAre("apply_patch"));
  EXPECT_THAT(forced(R"({"type": "function", "namespace": "files", "name": "f"})"),
              ElementsAre("files__f"));
}

TEST_F(ToolChoiceTest, AllowedToolsOfResponses) {
  const auto choice = [&](const std::string& mode, const std::string& tools) {
    return kResponsesTools + (R"({"type": "allowed_tools", "mode": ")" + mode) + R"(", "tools": )" +
           tools + "}";
  };
  const std::string two = R"([{"type": "function", "name": "read", "namespace": "files"},
      {"type": "web_search"}, {"type": "custom", "name": "apply_patch"}])";
  EXPECT_THAT(Allowed(&kResponses, choice("auto", two)), ElementsAre("apply_patch", "files__read"));
  EXPECT_THAT(Forced(&kResponses, choice("required", two)),
              ElementsAre("apply_patch", "files__read"));
  const auto message = [&](const std::string& tools) {
    const ApiError error = ErrorFrom(&kResponses, choice("required", tools));
    EXPECT_EQ(error.param, "tool_choice.tools");
    return error.message;
  };
  EXPECT_EQ(message("[]"), "tool_choice.tools: expected the name of one of the tools, found none");
  EXPECT_EQ(message(R"([{"type": "function", "name": "read"}])"),
            "tool_choice.tools: expected the name of one of the tools, found none");
  EXPECT_EQ(message("5"), "tool_choice.tools: expected a list of tools, found 5");
}

TEST_F(ToolChoiceTest, AllowedToolsOfChatCompletions) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "g"}},
      {"type": "function", "function": {"name": "h"}}], "tool_choice": )";
  const auto choice = [&](const std::string& allowed) {
    return tools + R"({"type": "allowed_tools", "allowed_tools": )" + allowed + "}";
  };
  const auto forced = [&](const std::string& allowed) {
    return Forced(&kChatCompletions, choice(allowed));
  };
  const std::string two = R"([{"type": "function", "function": {"name": "h"}},
      {"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "unknown"}}])";
  EXPECT_THAT(Allowed(&kChatCompletions, choice(R"({"mode": "auto", "tools": )" + two + "}")),
              ElementsAre("f", "h"));
  EXPECT_THAT(forced(R"({"mode": "required", "tools": )" + two + "}"), ElementsAre("f", "h"));
  const auto expect_error = [&](const std::string& allowed, const std::string& message) {
    const ApiError error = ErrorFrom(&kChatCompletions, choice(allowed));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.message, message);
  };
  const std::string path = "tool_choice.allowed_tools";
  expect_error("{}", path + ".mode: expected auto or required, found nothing");
  expect_error("5", path + ".mode: expected auto or required, found nothing");
  expect_error(R"({"mode": "none", "tools": []})",
               path + R"(.mode: expected auto or required, found "none")");
  expect_error(R"({"mode": "required"})", path + ".tools: expected a list of tools, found nothing");
  expect_error(R"({"mode": "required", "tools": [{"type": "function", "title": "f"}]})",
               path + ".tools[0].function.name: expected the name of a tool, found nothing");
  expect_error(R"({"mode": "required", "tools": [{"function": {"name": "unknown"}}]})",
               "tool_choice: expected tools where one is required, found none");
}

TEST_F(ToolChoiceTest, RequiredNeedsATool) {
  const ApiError error = ErrorFrom(&kResponses, R"("tools": [{"type": "web_search"}],
                                       "tool_choice": "required")");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "tool_choice");
}

TEST_F(ToolChoiceTest, ToolsThatClientsRunMayBeChosen) {
  const std::string messages = R"("tools": [{"type": "bash_20250124", "name": "bash"},
      {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}], "tool_choice": )";
  EXPECT_THAT(Forced(&kMessages, messages + R"({"type": "tool", "name": "bash"})"),
              ElementsAre("bash"));
  EXPECT_THAT(Forced(&kMessages, messages + R"({"type": "any"})"),
              ElementsAre("bash", "str_replace_based_edit_tool"));
  const std::string responses = R"("tools": [{"type": "shell"}, {"type": "local_shell"},
      {"type": "apply_patch"}], "tool_choice": )";
  EXPECT_THAT(Forced(&kResponses, responses + R"({"type": "shell"})"), ElementsAre("shell"));
  EXPECT_THAT(Forced(&kResponses, responses + R"({"type": "apply_patch"})"),
              ElementsAre("apply_patch"));
  EXPECT_THAT(Forced(&kResponses, responses + R"({"type": "allowed_tools", "mode": "required",
      "tools": [{"type": "local_shell"}]})"),
              ElementsAre("local_shell"));
  EXPECT_EQ(ErrorFrom(&kResponses, R"("tools": [{"type": "shell"}],
      "tool_choice": {"type": "apply_patch"})")
                .message,
            R"(tool_choice.name: expected the name of one of the tools, found "apply_patch")");
}

// A search that nobody runs would be an answer from nowhere.
TEST_F(ToolChoiceTest, ToolsThatServersRun) {
  const auto expect_refused = [&](const Api* endpoint, const std::string& tools,
                                  const std::string& field) {
    const ApiError error = ErrorFrom(endpoint, R"("tools": )" + tools);
    EXPECT_EQ(error.status, 400) << tools;
    EXPECT_EQ(error.param, field) << tools;
    EXPECT_THAT(error.message, HasSubstr("this server")) << tools;
  };
  for (const std::string type : {"code_interpreter", "file_search", "mcp"}) {
    expect_refused(&kResponses,
                   R"([{"type": "function", "name": "f"}, {"type": ")" + type + R"("}])",
                   "tools[1].type");
  }
  for (const std::string type :
       {"web_search_20250305", "web_fetch_20250910", "mcp_toolset", "code_execution_20250825",
        "advisor_20260301", "tool_search_tool_regex_20251119"}) {
    const std::string tool = R"({"type": ")" + type + R"(", "name": "x"})";
    expect_refused(&kMessages, "[" + tool + "]", "tools[0].type");
    EXPECT_THAT(Allowed(&kMessages, R"("tools": [{"name": "f", "input_schema": {}}, )" + tool +
                                        R"(], "mcp_servers": [{"type": "url"}])"),
                ElementsAre("f"))
        << "beside others it is dropped";
  }
  const std::string search = R"([{"type": "web_search_20250305", "name": "web_search"}])";
  for (const char* choice : {R"({"type": "tool", "name": "web_search"})", R"({"type": "any"})"}) {
    EXPECT_EQ(
        ErrorFrom(&kMessages, R"("tools": )" + search + R"(, "tool_choice": )" + choice).message,
        "tools[0].type: this server cannot search the web, and drops such a tool only beside "
        "others");
  }
  expect_refused(&kResponses, R"([{"type": "web_search"}])", "tools[0].type");
  expect_refused(&kMessages, R"([], "mcp_servers": [{"type": "url", "url": "https://x"}])",
                 "mcp_servers");
  EXPECT_THAT(ErrorFrom(&kResponses, R"("tools": [{"type": "computer_use_preview"}])").message,
              HasSubstr("reads text only"));
  EXPECT_THAT(ErrorFrom(&kResponses, R"("tools": [{"type": "song"}])").message,
              HasSubstr(R"(shell or apply_patch, found "song")"));
  EXPECT_THAT(ErrorFrom(&kMessages, R"("tools": [{"type": "song_1", "name": "s"}])").message,
              HasSubstr(R"(bash_*, text_editor_*, memory_* or computer_*, found "song_1")"));
}

}  // namespace
}  // namespace fathom::api
