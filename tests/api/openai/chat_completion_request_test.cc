#include "api/openai/openai_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fathom::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr RequestLimits kChatLimits = {.vocab_size = 1000, .max_context = 4096};

Result<ChatCompletionRequest> ParseChat(const std::string& body,
                                        const RequestDefaults& defaults = {}) {
  return ParseChatCompletionRequest(body, kChatLimits, defaults);
}

// A chat with these fields beside its messages.
std::string Chat(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

ChatCompletionRequest ParseChatFields(const std::string& fields,
                                      const RequestDefaults& defaults = {}) {
  Result<ChatCompletionRequest> request = ParseChat(Chat(fields), defaults);
  EXPECT_TRUE(request) << fields << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : ChatCompletionRequest();
}

TEST(ChatCompletionRequestTest, NothingSaidIsTheDefaults) {
  const RequestDefaults defaults = {
      .sampling = {.temperature = 0.6, .top_p = 0.95, .top_logprobs = 2, .max_tokens = 77},
      .encoding = {.thinking = ThinkingMode::kChat}};
  for (const char* fields :
       {"", R"("temperature": null, "top_p": null, "max_tokens": null, "stop": null, "n": null,
               "seed": null, "logprobs": null, "tools": null, "thinking": null, "stream": null,
               "reasoning_effort": null, "response_format": null, "logit_bias": null)"}) {
    const ChatCompletionRequest request = ParseChatFields(fields, defaults);
    EXPECT_EQ(request.generation.sampling.temperature, 0.6);
    EXPECT_EQ(request.generation.sampling.top_p, 0.95);
    EXPECT_EQ(request.generation.sampling.max_tokens, 77);
    EXPECT_EQ(request.generation.sampling.top_logprobs, 2);
    EXPECT_EQ(request.generation.sampling.seed, std::nullopt);
    EXPECT_EQ(request.generation.n_choices, 1);
    EXPECT_EQ(request.generation.model, "");
    EXPECT_EQ(request.encoding.thinking, ThinkingMode::kChat);
    EXPECT_FALSE(request.generation.stream);
    ASSERT_EQ(request.chat.messages.size(), 1u);
    EXPECT_EQ(request.chat.messages[0].content, "Hi");
  }
}

TEST(ChatCompletionRequestTest, ReadsEveryField) {
  const ChatCompletionRequest request = ParseChatFields(R"(
      "model": "m", "temperature": 0, "top_p": 0.5, "top_k": 7, "min_p": 0.25,
      "repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 2.0,
      "logit_bias": {"5": -100, "999": 1.5}, "stop": ["a", "b"], "stop_token_ids": [3, 4],
      "seed": -9223372036854775808, "n": 8, "priority": 5, "max_tokens": 3,
      "max_completion_tokens": 9, "min_tokens": 2, "ignore_eos": true, "logprobs": true,
      "top_logprobs": 20, "stream": true, "stream_options": {"include_usage": true},
      "parallel_tool_calls": false, "include_reasoning": false, "response_format": {"type": "text"},
      "user": "u", "metadata": {"a": [1]}, "store": true, "something_new": {"deep": [null]})");
  const SamplingParameters& sampling = request.generation.sampling;
  EXPECT_EQ(request.generation.model, "m");
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_EQ(sampling.top_p, 0.5);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.25);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.presence_penalty, -2);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(Pair(5, -100), Pair(999, 1.5)));
  EXPECT_THAT(sampling.stop_strings, ElementsAre("a", "b"));
  EXPECT_THAT(sampling.stop_tokens, ElementsAre(3, 4));
  EXPECT_EQ(sampling.seed, std::uint64_t{1} << 63);
  EXPECT_EQ(request.generation.n_choices, 8);
  EXPECT_EQ(request.generation.priority, -5) << "clients: lower is earlier";
  EXPECT_EQ(sampling.max_tokens, 9) << "max_completion_tokens wins";
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.top_logprobs, 20);
  EXPECT_TRUE(request.generation.stream);
  EXPECT_TRUE(request.generation.include_usage);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_FALSE(request.include_reasoning);
}

TEST(ChatCompletionRequestTest, OtherSpellings) {
  EXPECT_EQ(ParseChatFields(R"("top_k": -1)").generation.sampling.top_k, 0);
  EXPECT_EQ(ParseChatFields(R"("top_k": 99999)").generation.sampling.top_k, 1000);
  EXPECT_EQ(ParseChatFields(R"("seed": -1)", {.sampling = {.seed = 5}}).generation.sampling.seed,
            std::nullopt);
  EXPECT_THAT(ParseChatFields(R"("stop": "x")").generation.sampling.stop_strings, ElementsAre("x"));
  EXPECT_THAT(ParseChatFields(R"("stop": [])", {.sampling = {.stop_strings = {"y"}}})
                  .generation.sampling.stop_strings,
              IsEmpty());
  EXPECT_EQ(ParseChatFields(R"("logprobs": true)").generation.sampling.top_logprobs, 0);
  EXPECT_EQ(ParseChatFields(R"("logprobs": false)", {.sampling = {.top_logprobs = 3}})
                .generation.sampling.top_logprobs,
            std::nullopt);
  EXPECT_EQ(ParseChatFields(R"("n_predict": 4)").generation.sampling.max_tokens, 4);
  for (const std::string key : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    EXPECT_EQ(ParseChatFields("\"" + key + "\": -1", {.sampling = {.max_tokens = 3}})
                  .generation.sampling.max_tokens,
              std::nullopt)
        << key << ": no limit";
  }
  EXPECT_EQ(ParseChatFields(R"("top_p": 0)").generation.sampling.top_p, 0);
  EXPECT_EQ(ParseChatFields(R"("tools": [], "functions": [])").chat.tools.size(), 0u);
}

struct ThinkingCase {
  const char* fields;
  ThinkingMode mode;
  const char* effort;
  friend void PrintTo(const ThinkingCase& thinking, std::ostream* out) { *out << thinking.fields; }
};

class ThinkingTest : public ::testing::TestWithParam<ThinkingCase> {};

// EncodeChat does not think at the effort "none" whatever the mode.
TEST_P(ThinkingTest, FirstThatSaysSomethingDecides) {
  const ChatCompletionRequest request = ParseChatFields(GetParam().fields);
  const bool thinks =
      request.encoding.thinking == ThinkingMode::kThinking && request.encoding.effort != "none";
  EXPECT_EQ(thinks, GetParam().mode == ThinkingMode::kThinking) << GetParam().fields;
  EXPECT_EQ(request.encoding.effort, GetParam().effort) << GetParam().fields;
}

constexpr ThinkingMode kChat = ThinkingMode::kChat;
constexpr ThinkingMode kThinking = ThinkingMode::kThinking;

INSTANTIATE_TEST_SUITE_P(
    Fields, ThinkingTest,
    ::testing::Values(
        ThinkingCase{"", kThinking, "high"},
        ThinkingCase{R"("thinking": {"type": "disabled"})", kChat, "high"},
        ThinkingCase{R"("thinking": {"type": "enabled"})", kThinking, "high"},
        ThinkingCase{R"("thinking": {"type": "adaptive", "budget_tokens": 5})", kThinking, "high"},
        ThinkingCase{R"("thinking": {"type": "disabled"}, "reasoning_effort": "max")", kChat,
                     "max"},
        ThinkingCase{R"("thinking": {"type": "enabled"}, "reasoning_effort": "none")", kThinking,
                     "high"},
        ThinkingCase{R"("enable_thinking": false)", kChat, "high"},
        ThinkingCase{R"("thinking": {"type": "enabled"}, "enable_thinking": false)", kThinking,
                     "high"},
        ThinkingCase{R"("chat_template_kwargs": {"thinking": false})", kChat, "high"},
        ThinkingCase{R"("chat_template_kwargs": {"enable_thinking": false, "x": 1})", kChat,
                     "high"},
        ThinkingCase{R"("chat_template_kwargs": {"thinking": true, "enable_thinking": false})",
                     kThinking, "high"},
        ThinkingCase{R"("chat_template_kwargs": {"reasoning_effort": "low"})", kThinking, "low"},
        ThinkingCase{R"("reasoning_effort": "none")", kChat, "none"},
        ThinkingCase{R"("reasoning_effort": "high", "reasoning": {"effort": "low"})", kThinking,
                     "high"},
        ThinkingCase{R"("reasoning": {"effort": "low"})", kThinking, "low"},
        ThinkingCase{R"("reasoning": {"enabled": false})", kChat, "high"},
        ThinkingCase{R"("reasoning": {"enabled": false, "effort": "low"})", kChat, "low"},
        ThinkingCase{R"("reasoning": {"enabled": true, "effort": "none"})", kThinking, "high"},
        ThinkingCase{R"("enable_thinking": true, "reasoning": {"enabled": false})", kThinking,
                     "high"}));

TEST(ChatCompletionRequestTest, AnEffortAsksForThinking) {
  const RequestDefaults defaults = {.encoding = {.thinking = kChat}};
  EXPECT_EQ(ParseChatFields(R"("reasoning_effort": "max")", defaults).encoding.thinking, kThinking);
  EXPECT_EQ(ParseChatFields("", defaults).encoding.thinking, kChat);
  EXPECT_EQ(ParseChatFields(R"("reasoning": {"enabled": true})", defaults).encoding.thinking,
            kThinking);
}

TEST(ChatCompletionRequestTest, DropThinkingAndExclude) {
  EXPECT_FALSE(ParseChatFields(R"("chat_template_kwargs": {"drop_thinking": false})")
                   .encoding.drop_thinking);
  EXPECT_FALSE(ParseChatFields(R"("reasoning": {"exclude": true})").include_reasoning);
}

TEST(ChatCompletionRequestTest, ToolChoiceNoneTakesTheToolsAway) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  EXPECT_EQ(ParseChatFields(tools).chat.tools.size(), 1u);
  EXPECT_EQ(ParseChatFields(tools + R"(, "tool_choice": "auto")").chat.tools.size(), 1u);
  EXPECT_EQ(ParseChatFields(tools + R"(, "tool_choice": "none")").chat.tools.size(), 0u);
}

TEST(ChatCompletionRequestTest, ToolChoice) {
  using ChoiceKind = ToolChoice::Kind;
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], )";
  EXPECT_EQ(ParseChatFields("").tool_choice.kind, ChoiceKind::kAuto);
  EXPECT_EQ(ParseChatFields(tools + R"("tool_choice": "required")").tool_choice.kind,
            ChoiceKind::kRequired);
  const ToolChoice named =
      ParseChatFields(tools + R"("tool_choice": {"type": "function", "function": {"name": "f"}})")
          .tool_choice;
  EXPECT_EQ(named.kind, ChoiceKind::kNamed);
  EXPECT_EQ(named.name, "f");
}

TEST(ChatCompletionRequestTest, FunctionsAreTools) {
  const std::string functions = R"("functions": [{"name": "f", "x": 1.0}, {"name": "g"}])";
  const ChatCompletionRequest request = ParseChatFields(functions);
  ASSERT_EQ(request.chat.tools.size(), 2u);
  EXPECT_EQ(request.chat.tools[0].function_json, R"({"name": "f", "x": 1.0})");
  EXPECT_EQ(ParseChatFields(functions + R"(, "function_call": "none")").chat.tools.size(), 0u);
  EXPECT_EQ(ParseChatFields(functions + R"(, "function_call": {"name": "g"})").tool_choice.name,
            "g");
  EXPECT_EQ(ParseChatFields(functions + R"(, "function_call": "auto")").tool_choice.kind,
            ToolChoice::Kind::kAuto);
}

// The form of before there were tools, all through a conversation.
TEST(ChatCompletionRequestTest, MessagesOfFunctions) {
  const auto request = ParseChat(R"({"functions": [{"name": "f"}], "messages": [
      {"role": "user", "content": "a"},
      {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
      {"role": "function", "name": "f", "content": "r"}]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->legacy_functions);
  EXPECT_FALSE(request->parallel_tool_calls);
  ASSERT_EQ(request->chat.messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(request->chat.messages[1].tool_calls[0].name, "f");
  EXPECT_EQ(request->chat.messages[1].tool_calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(request->chat.messages[2].role, Role::kTool);
  EXPECT_EQ(request->chat.messages[2].content, "r");
  EXPECT_FALSE(ParseChatFields(R"("tools": [{"type": "function", "function": {"name": "f"}}])")
                   .legacy_functions);
  const auto nameless = ParseChat(R"({"messages": [{"role": "assistant", "function_call": {}}]})");
  ASSERT_TRUE(nameless);
  EXPECT_EQ(nameless->chat.messages[0].tool_calls[0].name, "");
}

TEST(ChatCompletionRequestTest, ContinuesTheLastMessage) {
  const auto request = ParseChat(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}], "continue_final_message": true,
      "add_generation_prompt": false})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->chat.messages[1].leave_open);
}

TEST(ChatCompletionRequestTest, AContextIsNotTheClientsBusiness) {
  EXPECT_THAT(ParseChatFields(R"("context": [{"role": "user", "content": "x"}])").chat.context,
              IsEmpty());
}

struct BadField {
  const char* fields;
  const char* message;
  friend void PrintTo(const BadField& bad, std::ostream* out) { *out << bad.fields; }
};

class BadFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadFieldTest, IsNamedWithWhatIsExpectedAndFound) {
  const auto request = ParseChat(Chat(GetParam().fields));
  ASSERT_FALSE(request) << GetParam().fields;
  EXPECT_EQ(request.error().message, GetParam().message);
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Sampling, BadFieldTest,
    ::testing::Values(
        BadField{R"("model": 5)", "model: expected a string, found 5"},
        BadField{R"("temperature": "warm")",
                 "temperature: expected a number from 0 to 2, found \"warm\""},
        BadField{R"("temperature": -0.1)",
                 "temperature: expected a number from 0 to 2, found -0.1"},
        BadField{R"("temperature": NaN)", "temperature: expected a number from 0 to 2, found NaN"},
        BadField{R"("temperature": 1e999)",
                 "temperature: expected a number from 0 to 2, found 1e999"},
        BadField{R"("temperature": true)",
                 "temperature: expected a number from 0 to 2, found true"},
        BadField{R"("top_p": -0.1)", "top_p: expected a number from 0 to 1, found -0.1"},
        BadField{R"("top_p": 1.01)", "top_p: expected a number from 0 to 1, found 1.01"},
        BadField{R"("top_k": 5.5)", "top_k: expected an integer of at least -1, found 5.5"},
        BadField{R"("top_k": -2)", "top_k: expected an integer of at least -1, found -2"},
        BadField{R"("min_p": 2)", "min_p: expected a number from 0 to 1, found 2"},
        BadField{R"("repetition_penalty": 0)",
                 "repetition_penalty: expected a number from 0.01 to 100, found 0"},
        BadField{R"("presence_penalty": 2.1)",
                 "presence_penalty: expected a number from -2 to 2, found 2.1"},
        BadField{R"("frequency_penalty": [])",
                 "frequency_penalty: expected a number from -2 to 2, found a list"},
        BadField{R"("seed": 1.5)", "seed: expected an integer of 64 bits, found 1.5"},
        BadField{R"("seed": 9223372036854775808)",
                 "seed: expected an integer of 64 bits, found 9223372036854775808"},
        BadField{R"("n": 0)", "n: expected an integer from 1 to 8, found 0"},
        BadField{R"("n": 9)", "n: expected an integer from 1 to 8, found 9"},
        BadField{R"("best_of": 2)", "best_of: expected an integer from 1 to 1, found 2"},
        BadField{R"("priority": 101)", "priority: expected an integer from -100 to 100, found 101"},
        BadField{R"("logit_bias": [5])",
                 "logit_bias: expected an object of at most 4096 token ids, found a list"},
        BadField{R"("logit_bias": {"1000": 1})",
                 "logit_bias: expected token ids from 0 to 999, found \"1000\""},
        BadField{R"("logit_bias": {"5x": 1})",
                 "logit_bias: expected token ids from 0 to 999, found \"5x\""},
        BadField{R"("logit_bias": {"": 1})",
                 "logit_bias: expected token ids from 0 to 999, found \"\""},
        BadField{R"("logit_bias": {"05": 1})",
                 "logit_bias: expected token ids from 0 to 999, found \"05\""},
        BadField{R"("logit_bias": {"5": 101})",
                 "logit_bias.5: expected a number from -100 to 100, found 101"},
        BadField{R"("logit_bias": {"5": null})",
                 "logit_bias.5: expected a number from -100 to 100, found null"}));

INSTANTIATE_TEST_SUITE_P(
    Lengths, BadFieldTest,
    ::testing::Values(
        BadField{R"("max_tokens": 0)", "max_tokens: expected an integer of at least 1, found 0"},
        BadField{R"("max_tokens": 5.5)",
                 "max_tokens: expected an integer of at least 1, found 5.5"},
        BadField{R"("max_tokens": "5")",
                 "max_tokens: expected an integer of at least 1, found \"5\""},
        BadField{R"("max_completion_tokens": 99999999999999999999)",
                 "max_completion_tokens: expected an integer of at least 1, found "
                 "99999999999999999999"},
        BadField{R"("min_tokens": -1)", "min_tokens: expected an integer of at least 0, found -1"},
        BadField{R"("min_tokens": 5, "max_tokens": 4)",
                 "min_tokens: expected at most max_tokens, which is 4, found 5"},
        BadField{R"("stop": 5)", "stop: expected a string or a list of strings, found 5"},
        BadField{R"("stop": "")", "stop: expected a string of 1 to 512 characters, found \"\""},
        BadField{R"("stop": ["a", 5])",
                 "stop[1]: expected a string of 1 to 512 characters, found 5"},
        BadField{R"("stop": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17])",
                 "stop: expected at most 16 strings, found 17"},
        BadField{R"("stop_token_ids": 5)",
                 "stop_token_ids: expected a list of at most 1024 token ids, found 5"},
        BadField{R"("stop_token_ids": [1, 1000])",
                 "stop_token_ids[1]: expected an integer from 0 to 999, found 1000"},
        BadField{R"("ignore_eos": 1)", "ignore_eos: expected true or false, found 1"},
        BadField{R"("stream": "true")", "stream: expected true or false, found \"true\""},
        BadField{R"("stream_options": [])", "stream_options: expected an object, found a list"},
        BadField{R"("stream_options": {"include_usage": 1})",
                 "stream_options.include_usage: expected true or false, found 1"}));

INSTANTIATE_TEST_SUITE_P(
    Chat, BadFieldTest,
    ::testing::Values(
        BadField{R"("logprobs": 5)", "logprobs: expected true or false, found 5"},
        BadField{R"("logprobs": true, "top_logprobs": 21)",
                 "top_logprobs: expected an integer from 0 to 20, found 21"},
        BadField{R"("top_logprobs": 2)",
                 "logprobs: expected true where top_logprobs is given, found false or nothing"},
        BadField{R"("tool_choice": "any")",
                 "tool_choice: expected none, auto, required or a tool, found \"any\""},
        BadField{R"("tool_choice": 5)",
                 "tool_choice: expected none, auto, required or a tool, found 5"},
        BadField{R"("tool_choice": {"type": "function"})",
                 "tool_choice.function.name: expected the name of a tool, found nothing"},
        BadField{R"("function_call": "required")",
                 "function_call: expected none, auto or a function, found \"required\""},
        BadField{R"("functions": {"name": "f"})", "functions: expected a list, found an object"},
        BadField{R"("functions": [{"name": "f"}, {"name": "g"}],
                    "tools": [{"type": "function", "function": {"name": "f"}}])",
                 "functions: expected none beside tools, found 2 of them"},
        BadField{R"("functions": [{"name": "f"}], "function_call": {"name": "g"})",
                 "function_call.name: expected the name of one of the functions, found \"g\""},
        BadField{R"("continue_reasoning": 1)",
                 "continue_reasoning: expected true or false, found 1"},
        BadField{R"("stop_in_reasoning": 1)", "stop_in_reasoning: expected true or false, found 1"},
        BadField{R"("tools": 5)", "tools: expected a list of tools, found a number"},
        BadField{R"("tools": [{"type": "web_search"}])",
                 "tools[0].type: expected function or custom, found \"web_search\""},
        BadField{R"("thinking": 1)",
                 "thinking: expected an object with a type, true or false, found 1"},
        BadField{R"("thinking": {"type": "on"})",
                 "thinking.type: expected enabled, disabled, adaptive or auto, found \"on\""},
        BadField{R"("chat_template_kwargs": [])",
                 "chat_template_kwargs: expected an object, found a list"},
        BadField{R"("chat_template_kwargs": {"thinking": "yes"})",
                 "chat_template_kwargs.thinking: expected true or false, found \"yes\""},
        BadField{R"("reasoning": "high")", "reasoning: expected an object, found \"high\""},
        BadField{R"("reasoning": {"effort": 5})", "reasoning.effort: expected a string, found 5"},
        BadField{R"("reasoning_effort": 5)", "reasoning_effort: expected a string, found 5"},
        BadField{R"("parallel_tool_calls": "no")",
                 "parallel_tool_calls: expected true or false, found \"no\""},
        BadField{R"("reasoning_effort": "low", "reasoning": {"effort": "enormous"})",
                 "reasoning.effort: expected one of none, minimal, low, medium, high, xhigh, max, "
                 "ultra, found \"enormous\""},
        BadField{R"("modalities": ["text", "audio"])",
                 "modalities[1]: expected \"text\", found \"audio\""},
        BadField{R"("modalities": {})", "modalities: expected a list, found an object"},
        BadField{R"("response_format": "json")",
                 "response_format: expected an object with a type, found \"json\""},
        BadField{R"("response_format": {"type": "xml"})",
                 "response_format.type: expected text, json_object or json_schema, found \"xml\""},
        BadField{R"("continue_final_message": true)",
                 "continue_final_message: expected an assistant message at the end, found another "
                 "role"}));

INSTANTIATE_TEST_SUITE_P(
    Tools, BadFieldTest,
    ::testing::Values(BadField{R"("tools": [{"function": {"name": "f", "description": 5}}])",
                               "tools[0].function.description: expected a string, found a number"},
                      BadField{R"("tools": [{"function": {"name": "f", "parameters": []}}])",
                               "tools[0].function.parameters: expected an object, found a list"},
                      BadField{
                          R"("tools": [{"function": {"name": "f", "strict": {}}}])",
                          "tools[0].function.strict: expected true or false, found an object"}));

TEST(ChatCompletionRequestTest, StopStringsAreCountedInCharacters) {
  std::string text;
  for (int i = 0; i < 512; ++i) text += "\u00e9";
  const auto stop_of = [](const std::string& stop) {
    const auto request = ParseChat(Chat(R"("stop": ")" + stop + '"'));
    return request ? request->generation.sampling.stop_strings[0] : request.error().message;
  };
  EXPECT_EQ(stop_of(text), text);
  EXPECT_THAT(stop_of(text + "e"), ::testing::HasSubstr("of 1 to 512 characters"));
}

TEST(ChatCompletionRequestTest, ToolsMayLeaveOutTheirType) {
  const ChatCompletionRequest request = ParseChatFields(
      R"("tools": [{"type": null, "function": {"name": "f", "parameters": null, "strict": null}},
                   {"function": {"name": "g", "description": null}}])");
  EXPECT_EQ(request.chat.tools.size(), 2u);
}

TEST(ChatCompletionRequestTest, WhatIsNotThereYetSaysSo) {
  for (const char* field :
       {R"("response_format": {"type": "structural_tag"})", R"("structural_tag": {"format": {}})",
        R"("web_search_options": {})", R"("audio": {"voice": "v"})",
        R"("guided_whitespace_pattern": "\\n")",
        R"("structured_outputs": {"structural_tag": "{}"})", R"("add_generation_prompt": false)"}) {
    const auto request = ParseChat(Chat(field));
    ASSERT_FALSE(request) << field;
    EXPECT_EQ(request.error().code, ErrorCode::kUnsupported) << field;
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(request.error().message, ::testing::StartsWith(name));
    EXPECT_THAT(request.error().message, ::testing::HasSubstr("not supported"));
  }
  ParseChatFields(R"("guided_json": null, "prompt_logprobs": null, "grammar": "", "bad_words": [],
      "prediction": {"type": "content", "content": "a hint changes nothing"})");
}

TEST(ChatCompletionRequestTest, MessagesAndBodies) {
  const auto message_of = [](const std::string& body) {
    const auto request = ParseChat(body);
    return request ? "accepted" : request.error().message;
  };
  EXPECT_EQ(message_of("{}"), "messages: expected a list of messages, found nothing");
  EXPECT_EQ(message_of(R"({"messages": []})"),
            "messages: expected at least one message, found none");
  EXPECT_EQ(message_of(R"({"messages": "Hi"})"),
            "messages: expected a list of messages, found \"Hi\"");
  EXPECT_EQ(message_of(R"({"messages": [5]})"), "messages[0]: expected an object, found a number");
  EXPECT_EQ(message_of(R"({"messages": [{"role": "user", "content": 5}]})"),
            "messages[0].content: expected a string, a list of parts or null, found a number");
  EXPECT_EQ(message_of(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})"),
            "messages[0].content[0].text: expected a string, found nothing");
  EXPECT_EQ(message_of(R"({"messages": [{"role": "tool", "content": [{"type": "text"}]}]})"),
            "messages[0].content[0].text: expected a string, found nothing");
  EXPECT_EQ(message_of(R"({"messages": [
                {"role": "assistant", "reasoning_content": "a", "reasoning": 5}]})"),
            "messages[0].reasoning: expected a string, found a number");
  EXPECT_EQ(message_of(R"({"messages": [{"role": "assistant", "tool_calls": [
                {"type": "custom", "function": {"name": "f"}}]}]})"),
            "messages[0].tool_calls[0].custom: expected an object, found nothing");
  EXPECT_EQ(message_of(R"({"messages": [{"role": "assistant", "tool_calls": [
                {"type": "x", "function": {"name": "f"}}]}]})"),
            "messages[0].tool_calls[0].type: expected function or custom, found \"x\"");
  EXPECT_EQ(message_of("[]"), "the body of a request is an object, found a list");
  EXPECT_EQ(message_of("5"), "the body of a request is an object, found 5");
  EXPECT_THAT(message_of(""), ::testing::HasSubstr("JSON, byte 0"));
  EXPECT_THAT(message_of("{\"messages\": \xff}"), ::testing::HasSubstr("JSON, byte 13"));
  EXPECT_THAT(message_of(R"({"metadata": )" + std::string(100000, '[')),
              ::testing::HasSubstr("JSON, byte"));
  EXPECT_THAT(message_of(R"({"metadata": )" + std::string(300, '[') + std::string(300, ']') + "}"),
              ::testing::HasSubstr("JSON, byte 212: expected at most 200 nested"));
  EXPECT_EQ(message_of(Chat("\"seed\": 1" + std::string(1000, '0'))),
            "seed: expected an integer of 64 bits, found 1" + std::string(39, '0') + "...");
  EXPECT_EQ(message_of(Chat(R"("temperature": 1e999)")),
            "temperature: expected a number from 0 to 2, found 1e999");
}

}  // namespace
}  // namespace fathom::api
