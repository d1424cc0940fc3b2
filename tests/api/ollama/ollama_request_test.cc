#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/ollama/ollama_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;

class OllamaRequestTest : public testing::ApiModelTest {
 protected:
  ApiCall Prepare(const Api& api, const std::string& body) const {
    ApiResult<ApiCall> call = api.prepare(body, model_);
    EXPECT_TRUE(call) << body << ": " << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }
  ApiCall Chat(const std::string& fields) const {
    return Prepare(kOllamaChat,
                   R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}");
  }
  ApiCall Generate(const std::string& fields) const {
    return Prepare(kOllamaGenerate, "{" + fields + "}");
  }
  std::string Error(const Api& api, const std::string& body) const {
    const ApiResult<ApiCall> call = api.prepare(body, model_);
    return call ? "accepted" : call.error().message;
  }
  std::string ChatError(const std::string& fields) const {
    return Error(kOllamaChat, R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}");
  }
  std::string Prompt(const ApiCall& call) const {
    return call.requests.empty() ? "" : *tokenizer_.Decode(call.requests[0].prompt);
  }
};

constexpr std::string_view kHead = "<｜begin▁of▁sentence｜>";

TEST_F(OllamaRequestTest, StreamsUnlessToldOtherwise) {
  EXPECT_TRUE(Chat("").stream);
  EXPECT_FALSE(Chat(R"(, "stream": false)").stream);
  EXPECT_TRUE(Generate(R"("prompt": "Hi")").stream);
  EXPECT_EQ(Chat(R"(, "model": "fairy:latest")").model, "fairy");
}

TEST_F(OllamaRequestTest, OptionsAreTheSampling) {
  const SamplingParameters sampling =
      Chat(R"(, "keep_alive": "5m", "options": {"temperature": 0.5, "num_predict": 7, "top_k": 3,
          "top_p": 0.25, "min_p": 0.125, "seed": 9, "repeat_penalty": 1.5, "presence_penalty": 1,
          "frequency_penalty": -1, "stop": ["x", "y"], "num_ctx": 4096, "mirostat": 0})")
          .requests[0]
          .sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.max_tokens, 7);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.min_p, 0.125);
  EXPECT_EQ(sampling.seed, 9u);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1);
  EXPECT_EQ(sampling.stop_strings, (std::vector<std::string>{"x", "y"}));
}

TEST_F(OllamaRequestTest, LengthsBelowOneAreNoLimit) {
  model_.defaults.sampling.max_tokens = 5;
  EXPECT_EQ(Chat("").requests[0].sampling.max_tokens, 5);
  for (const char* length : {"-1", "-2", "0"}) {
    const std::string options = R"(, "options": {"num_predict": )" + std::string(length) + "}";
    EXPECT_EQ(Chat(options).requests[0].sampling.max_tokens, std::nullopt) << length;
  }
  EXPECT_THAT(ChatError(R"(, "options": {"num_predict": -3})"),
              HasSubstr("options.num_predict: expected an integer"));
}

TEST_F(OllamaRequestTest, WhatWouldChangeTheAnswerIsRefused) {
  EXPECT_THAT(ChatError(R"(, "options": {"mirostat": 2})"), HasSubstr("mirostat: not supported"));
  EXPECT_THAT(ChatError(R"(, "logprobs": true)"), HasSubstr("logprobs: not supported"));
  EXPECT_THAT(ChatError(R"(, "format": "xml")"),
              HasSubstr("format: expected json or a JSON schema, found \"xml\""));
  for (const char* field : {R"("template": "{{ .Prompt }}")", R"("context": [1, 2])"}) {
    EXPECT_THAT(Error(kOllamaGenerate, R"({"prompt": "a", )" + std::string(field) + "}"),
                HasSubstr("not supported"));
  }
  EXPECT_EQ(Error(kOllamaGenerate, R"({"prompt": "a", "template": "", "context": []})"),
            "accepted");
}

TEST_F(OllamaRequestTest, Think) {
  const std::string turn = std::string(kHead) + "<｜User｜>Hi<｜Assistant｜>";
  EXPECT_EQ(Prompt(Chat("")), turn + "<think>");
  EXPECT_EQ(Prompt(Chat(R"(, "think": true)")), turn + "<think>");
  EXPECT_EQ(Prompt(Chat(R"(, "think": false)")), turn + "</think>");
  EXPECT_THAT(Prompt(Chat(R"(, "think": "high")")), HasSubstr("<｜Assistant｜><think>"));
  EXPECT_THAT(ChatError(R"(, "think": "enormous")"), HasSubstr("think: expected one of"));
}

TEST_F(OllamaRequestTest, HistoriesHaveThinkingAndObjects) {
  const std::string prompt = Prompt(Prepare(kOllamaChat, R"({"tools": [{"type": "function",
      "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type":
      "integer"}}}}}], "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_name": "f", "content": "sunny"}]})"));
  EXPECT_THAT(prompt, HasSubstr("<think>Hm.</think>"));
  EXPECT_THAT(prompt, HasSubstr(R"(name="a" string="false">1<)"));
  EXPECT_THAT(prompt, HasSubstr("sunny"));
}

// Ollama's clients send no ids, neither of calls nor of results.
TEST_F(OllamaRequestTest, ResultsFollowTheCallsOfTheirNames) {
  const auto prompt = [&](const std::string& results) {
    return Prompt(Prepare(kOllamaChat, R"({"messages": [{"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}},
          {"function": {"name": "g", "arguments": {}}}, {"function": {"name": "f", "arguments":
          {}}}]}, )" + results + "]}"));
  };
  const std::string expected =
      "<tool_result>of f 1</tool_result>\n\n<tool_result>of g</tool_result>\n\n<tool_result>of f "
      "2</tool_result><｜Assistant｜>";
  const std::string f1 = R"({"role": "tool", "tool_name": "f", "content": "of f 1"})";
  const std::string f2 = R"({"role": "tool", "tool_name": "f", "content": "of f 2"})";
  const std::string g = R"({"role": "tool", "tool_name": "g", "content": "of g"})";
  for (const std::string& results :
       {f1 + ", " + g + ", " + f2, g + ", " + f1 + ", " + f2, f1 + ", " + f2 + ", " + g}) {
    EXPECT_THAT(prompt(results), HasSubstr(expected)) << results;
  }
  const std::string reminder = R"({"role": "system", "content": "Be quick."})";
  EXPECT_THAT(prompt(g + ", " + reminder + ", " + f1),
              HasSubstr("<tool_result>of f 1</tool_result>\n\n<tool_result>of g</tool_result>\n\n"
                        "<system-reminder>\nBe quick.\n</system-reminder>"));
}

TEST_F(OllamaRequestTest, FormatsAreConstraints) {
  EXPECT_EQ(Chat(R"(, "format": "")").requests[0].sampling.constraint, nullptr);
  EXPECT_NE(Chat(R"(, "format": "json")").requests[0].sampling.constraint, nullptr);
  const ApiCall call = Chat(R"(, "format": {"type": "object", "properties": {"city": {}}})");
  EXPECT_NE(call.requests[0].sampling.constraint, nullptr);
  EXPECT_THAT(Prompt(call), HasSubstr("city")) << "the model sees the schema";
}

TEST_F(OllamaRequestTest, ImagesAreReplacedAsElsewhere) {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "Look", "images": ["aGk="]}]})";
  EXPECT_THAT(Error(kOllamaChat, chat), HasSubstr("does not support images"));
  EXPECT_THAT(Error(kOllamaGenerate, R"({"prompt": "Look", "images": ["aGk="]})"),
              HasSubstr("does not support images"));
  model_.defaults.media = MediaPolicy::kAll;
  EXPECT_THAT(Prompt(Prepare(kOllamaChat, chat)), HasSubstr("Look\n\n[Unsupported Image]<"));
  EXPECT_THAT(Prompt(Generate(R"("prompt": "Look", "images": ["aGk="])")),
              HasSubstr("Look\n\n[Unsupported Image]<"));
}

TEST_F(OllamaRequestTest, PromptsToGenerate) {
  EXPECT_EQ(Prompt(Generate(R"("prompt": "Hi", "system": "Be kind.", "think": false)")),
            std::string(kHead) + "Be kind.<｜User｜>Hi<｜Assistant｜></think>");
  const ApiCall raw = Generate(R"("prompt": "Once", "raw": true, "system": "unused")");
  EXPECT_EQ(Prompt(raw), std::string(kHead) + "Once");
  EXPECT_FALSE(raw.answers.is_chat);
  EXPECT_EQ(Prompt(Generate(R"("prompt": "a", "suffix": "b")")),
            std::string(kHead) + "<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>");
}

TEST_F(OllamaRequestTest, NothingToAnswerIsACallWithoutRequests) {
  EXPECT_TRUE(Prepare(kOllamaChat, R"({"model": "fairy"})").requests.empty());
  EXPECT_TRUE(Prepare(kOllamaChat, R"({"messages": []})").requests.empty());
  EXPECT_TRUE(Generate(R"("model": "fairy", "keep_alive": 0)").requests.empty());
  EXPECT_TRUE(Generate(R"("prompt": "")").requests.empty());
}

}  // namespace
}  // namespace fathom::api
