#include "api/common/forced_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr Token kEos = 1;

// Plays the engine: what the model writes for a request is the script's business; how it stops is
// as in the engine.
class ScriptedRunner final : public RequestRunner {
 public:
  using Script = std::function<std::vector<Token>(const Request&, std::uint32_t choice)>;

  ScriptedRunner(const Tokenizer& tokenizer, Script script)
      : tokenizer_(tokenizer), script_(std::move(script)) {}

  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override {
    if (n_refused > 0) {
      --n_refused;
      return MakeError(refuse_with, "no");
    }
    requests.push_back(request);
    ++n_open;
    auto stream = std::make_unique<Stream>(*this);
    stream->counts = {.prompt_tokens = static_cast<std::int64_t>(request.prompt.size()),
                      .cached_tokens = static_cast<std::int64_t>(request.prompt.size()) - 1,
                      .drafted_tokens = 2,
                      .accepted_tokens = 1};
    for (std::uint32_t choice = 0; choice < static_cast<std::uint32_t>(request.n_choices);
         ++choice) {
      Write(request, choice, &stream->events);
    }
    return stream;
  }

  std::vector<Request> requests;
  int n_refused = 0;  // of the next
  ErrorCode refuse_with = ErrorCode::kResourceExhausted;
  int n_open = 0;
  bool fails = false;  // the next request ends with an error

 private:
  struct Stream final : RunningRequest {
    explicit Stream(ScriptedRunner& owner) : runner(owner) {}
    ~Stream() override { --runner.n_open; }
    // Every second time there is nothing yet.
    std::optional<bool> NextFor(std::chrono::milliseconds, StreamEvent& event) override {
      if ((is_late = !is_late)) return std::nullopt;
      if (events.empty()) return false;
      event = std::move(events.front());
      events.pop_front();
      return true;
    }
    RequestStats stats() const override { return counts; }
    void Cancel() override {
      if (events.empty()) return;
      events = {{.choice = events.front().choice, .finish = FinishReason::kCancelled}};
    }

    ScriptedRunner& runner;
    std::deque<StreamEvent> events;
    RequestStats counts;
    bool is_late = false;
  };

  void Write(const Request& request, std::uint32_t choice, std::deque<StreamEvent>* events) {
    const SamplingParameters& sampling = request.sampling;
    const std::vector<Token>& stops = sampling.stop_tokens;
    std::int64_t index = 0;
    for (const Token token : script_(request, choice)) {
      StreamEvent event = {.choice = choice, .token = token, .index = index++};
      const bool is_stop = std::find(stops.begin(), stops.end(), token) != stops.end();
      if (is_stop || (token == kEos && !sampling.ignore_eos)) {
        event.finish = FinishReason::kStop;
      } else {
        const std::vector<Token>& silent = sampling.silent_tokens;
        const bool is_silent = std::find(silent.begin(), silent.end(), token) != silent.end();
        if (!is_silent) event.text = tokenizer_.TokenBytes(token);
        if (index == sampling.max_tokens) event.finish = FinishReason::kLength;
      }
      if (std::exchange(fails, false)) {
        event.finish = FinishReason::kError;
        event.error = Error{ErrorCode::kIo, "NaN"};
      }
      events->push_back(event);
      if (event.finish) return;
    }
    ADD_FAILURE() << "the script does not end";
  }

  const Tokenizer& tokenizer_;
  const Script script_;
};

constexpr std::string_view kParameters =
    "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls><｜end▁of▁sentence｜>";

class ForcedCallTest : public testing::ApiModelTest {
 protected:
  // A call with the tools get, get_all and put.
  ApiCall Call(const std::string& fields) const {
    std::string tools;
    for (const char* name : {"get", "get_all", "put"}) {
      tools += std::string(tools.empty() ? "" : ", ") +
               R"({"type": "function", "function": {"name": ")" + name + "\"}}";
    }
    const ApiResult<ApiCall> call =
        kChatCompletions.prepare(R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [)" +
                                     tools + "], " + fields + "}",
                                 model_);
    EXPECT_TRUE(call) << call.error().message;
    return call ? *call : ApiCall();
  }

  static bool IsChoosing(const Request& request) { return !request.sampling.logit_bias.empty(); }

  // Thinks, then writes this behind the opener of the call.
  ScriptedRunner::Script Writing(const std::string& text) const {
    return [this, text](const Request& request, std::uint32_t) {
      return Tokens(IsWriting(request) ? text : "Hm.</think>");
    };
  }

  bool IsWriting(const Request& request) const {
    return !IsChoosing(request) && tokenizer_.Decode(request.prompt)->ends_with("\">\n");
  }

  // Thinks `thoughts`, chooses the tool that comes last in the alphabet, calls it.
  ScriptedRunner::Script Script(const std::string& thoughts) const {
    return [this, thoughts](const Request& request, std::uint32_t) {
      if (IsChoosing(request)) {
        const auto& biases = request.sampling.logit_bias;
        const auto last =
            std::max_element(biases.begin(), biases.end(), [this](const auto& a, const auto& b) {
              return tokenizer_.TokenBytes(a.first) < tokenizer_.TokenBytes(b.first);
            });
        return std::vector<Token>{last->first};
      }
      return Tokens(IsWriting(request) ? kParameters : thoughts);
    };
  }

  // All events, and the answer of the call.
  Json Answer(RequestRunner& runner, const ApiCall& call,
              const std::function<void(RunningRequest&, const StreamEvent&)>& on_event = {}) {
    ApiAnswer answer(call, model_, 0, testing::CountingBits());
    Result<std::unique_ptr<RunningRequest>> running = SubmitForced(runner, call, call.requests[0]);
    EXPECT_TRUE(running) << running.error().message;
    if (!running) return {};
    std::vector<std::int64_t> n_tokens(answer.choices().size(), 0);
    text_.assign(answer.choices().size(), "");
    while (true) {
      StreamEvent event;
      const std::optional<bool> next = (*running)->NextFor(std::chrono::milliseconds(1), event);
      if (!next) continue;
      if (!*next) break;
      EXPECT_EQ(event.index, n_tokens[event.choice]);
      n_tokens[event.choice] += event.token == StreamEvent::kNoToken ? 0 : 1;
      text_[event.choice] += event.text;
      answer.Add(0, event);
      if (on_event) on_event(**running, event);
    }
    stats_ = (*running)->stats();
    answer.End(0, stats_);
    EXPECT_EQ(stats_.prompt_tokens, std::ssize(call.requests[0].prompt));
    EXPECT_LE(stats_.cached_tokens, stats_.prompt_tokens);
    return Json::parse(WholeReply(answer).body, nullptr, false);
  }

  static std::string Named(const Json& choice) {
    std::string calls;
    if (!choice["message"].contains("tool_calls")) return "";
    for (const Json& call : choice["message"]["tool_calls"]) {
      calls += call["function"]["name"].get<std::string>() +
               call["function"]["arguments"].get<std::string>();
    }
    return calls;
  }

  std::vector<std::string> text_;
  RequestStats stats_;
};

constexpr const char* kNamed =
    R"("tool_choice": {"type": "function", "function": {"name": "get"}})";
constexpr const char* kRequired = R"("tool_choice": "required")";
constexpr const char* kNoThinking = R"(, "enable_thinking": false)";

TEST_F(ForcedCallTest, NotForcedIsAsItIs) {
  ScriptedRunner runner(tokenizer_, Script("Hm</think>Hi.<｜end▁of▁sentence｜>"));
  const ApiCall call = Call(R"("tool_choice": "auto")");
  const Json reply = Answer(runner, call);
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "Hi.");
  ASSERT_THAT(runner.requests, SizeIs(1));
  EXPECT_EQ(runner.requests[0].prompt, call.requests[0].prompt);
}

// A budget that applied to the call, too, would write a second </think> into the call.
TEST_F(ForcedCallTest, ABudgetIsThatOfTheReasoning) {
  ScriptedRunner runner(tokenizer_, Script("Hm</think>"));
  const ApiCall call = Call(std::string(kNamed) + R"(, "thinking_token_budget": 5)");
  const Json reply = Answer(runner, call);
  EXPECT_EQ(Named(reply["choices"][0]), R"(get{"a": "x"})");
  ASSERT_THAT(runner.requests, SizeIs(2));
  ASSERT_TRUE(runner.requests[0].sampling.reasoning_budget);
  EXPECT_EQ(runner.requests[0].sampling.reasoning_budget->n_tokens, 5);
  EXPECT_FALSE(runner.requests[1].sampling.reasoning_budget);
}

TEST_F(ForcedCallTest, NamedWithoutThinkingIsOneRequest) {
  ScriptedRunner runner(tokenizer_, Script(""));
  const ApiCall call = Call(std::string(kNamed) + kNoThinking + R"(, "n": 2, "stop": "x")");
  const Json reply = Answer(runner, call);
  for (const Json& choice : reply["choices"]) {
    EXPECT_EQ(Named(choice), R"(get{"a": "x"})");
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(choice["message"]["content"].is_null());
  }
  ASSERT_THAT(runner.requests, SizeIs(1));
  EXPECT_EQ(*tokenizer_.Decode(runner.requests[0].prompt),
            *tokenizer_.Decode(call.requests[0].prompt) +
                "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n");
  EXPECT_EQ(runner.requests[0].n_choices, 2);
  EXPECT_THAT(runner.requests[0].sampling.stop_strings, SizeIs(0)) << "a call is not visible";
  EXPECT_EQ(runner.n_open, 0);
  const auto n_generated = static_cast<std::int64_t>(Tokens(kParameters).size());
  EXPECT_EQ(stats_.generated_tokens, 2 * n_generated) << "what was given is not generated";
  EXPECT_LT(reply["usage"]["completion_tokens"], 2 * n_generated) << "it ends with the block";
}

TEST_F(ForcedCallTest, ThinksFirst) {
  // Ends its thinking, or the answer, or talks on.
  for (const char* thoughts : {"Hm.</think>", "Hm.<｜end▁of▁sentence｜>"}) {
    ScriptedRunner runner(tokenizer_, Script(thoughts));
    const ApiCall call = Call(std::string(kNamed) + R"(, "max_tokens": 100, "seed": 7)");
    const Json reply = Answer(runner, call);
    const Json& choice = reply["choices"][0];
    EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
    EXPECT_EQ(Named(choice), R"(get{"a": "x"})");
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    ASSERT_THAT(runner.requests, SizeIs(2));
    EXPECT_EQ(*tokenizer_.Decode(runner.requests[1].prompt),
              *tokenizer_.Decode(call.requests[0].prompt) +
                  "Hm.</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n");
    const auto n_thoughts = static_cast<std::int64_t>(Tokens(thoughts).size());
    EXPECT_EQ(runner.requests[1].sampling.max_tokens, 100 - n_thoughts);
    EXPECT_EQ(runner.requests[1].sampling.seed, 7u);
    EXPECT_EQ(reply["usage"]["completion_tokens_details"]["reasoning_tokens"],
              static_cast<std::int64_t>(Tokens("Hm.").size()));
    EXPECT_EQ(stats_.drafted_tokens, 4) << "of both requests";
  }
}

// A token that begins another turn ends the reasoning; a stop token of the client does not.
TEST_F(ForcedCallTest, ATurnTokenEndsTheThinking) {
  ScriptedRunner runner(tokenizer_, Script("Hm.<｜User｜>"));
  Json choice = Answer(runner, Call(kNamed))["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(Named(choice), R"(get{"a": "x"})");
  EXPECT_EQ(choice["stop_reason"], nullptr);
  const Token user = *tokenizer_.Find("<｜User｜>");
  const std::string stops = fmt::format(R"(, "stop_token_ids": [{}])", user);
  choice = Answer(runner, Call(kNamed + stops))["choices"][0];
  EXPECT_EQ(Named(choice), "");
  EXPECT_EQ(choice["stop_reason"], user);
}

// The server wrote the opener, so the answer has a call whatever the model writes behind it.
TEST_F(ForcedCallTest, ACallThatIsHardlyOneIsTold) {
  constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
  const auto expect = [&](const std::string& text, const std::string& call,
                          const std::string& finish = "tool_calls") {
    ScriptedRunner runner(tokenizer_, Writing(text + std::string(kEnd)));
    const std::string limit = finish == "length" ? fmt::format(R"(, "max_tokens": {})",
                                                               Tokens("Hm.</think>" + text).size())
                                                 : "";
    for (const char* stream : {"", R"(, "stream": true)"}) {
      const ApiCall prepared = Call(kNamed + limit + stream);
      const Json choice = Answer(runner, prepared)["choices"][0];
      EXPECT_EQ(Named(choice), call) << text;
      EXPECT_EQ(choice["finish_reason"], finish) << text;
      EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
    }
  };
  const std::string a = "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n";
  expect("", "get{}");
  expect("\n\n", "get{}");
  expect(std::string(200, '\n') + a, R"(get{"a": "x"})");
  expect("I cannot do that.", "get{}");
  expect("</｜DSML｜tool_calls>", "get{}");
  expect("</｜DSML｜invoke>", "get{}");
  expect("<｜DSML｜param", "get{}");
  expect("Well: " + a, R"(get{"a": "x"})");
  expect(a + "<｜DSML｜nothing", R"(get{"a": "x"})");
  // A value without an end may be incomplete.
  expect("<｜DSML｜parameter name=\"a\" string=\"true\">x", R"(get{"a": "x"})", "stop");
  expect(R"({"a": 1})", R"(get{"a": 1})");
  expect(R"({"a": )", "get{}");
  expect(R"({"a": </｜DSML｜invoke></｜DSML｜tool_calls>)", "get{}");
  expect("<｜DSML｜tool_calls>", "get{}");
  expect("<｜User｜>", "get{}");
  expect("I", "get{}", "length");
  expect("<｜DSML｜par", "get{}", "length");
  expect(R"({"a": )", "get{}", "length");
}

TEST_F(ForcedCallTest, EachChoiceGoesOnAlone) {
  const auto writes = Script("");
  ScriptedRunner runner(tokenizer_, [&](const Request& request, std::uint32_t choice) {
    if (IsWriting(request)) return writes(request, choice);
    return Tokens(choice == 0 ? "A.</think>" : "Bb.</think>");
  });
  const Json reply = Answer(runner, Call(std::string(kNamed) + R"(, "n": 2)"));
  EXPECT_EQ(reply["choices"][0]["message"]["reasoning"], "A.");
  EXPECT_EQ(reply["choices"][1]["message"]["reasoning"], "Bb.");
  EXPECT_EQ(Named(reply["choices"][1]), R"(get{"a": "x"})");
  ASSERT_THAT(runner.requests, SizeIs(3));
  std::vector<std::uint32_t> numbers = {runner.requests[1].sampling.choice,
                                        runner.requests[2].sampling.choice};
  EXPECT_THAT(numbers, ::testing::UnorderedElementsAre(0, 1)) << "the noise of its number";
  EXPECT_EQ(runner.requests[1].n_choices, 1);
  EXPECT_EQ(runner.requests[1].sampling.seed, runner.requests[2].sampling.seed);
}

TEST_F(ForcedCallTest, TheModelChoosesTheTool) {
  for (const bool thinks : {true, false}) {
    ScriptedRunner runner(tokenizer_, Script("Hm.</think>"));
    const Json reply = Answer(runner, Call(std::string(kRequired) + (thinks ? "" : kNoThinking)));
    EXPECT_EQ(Named(reply["choices"][0]), R"(put{"a": "x"})");
    std::vector<Request> choosing;
    for (const Request& request : runner.requests) {
      if (IsChoosing(request)) choosing.push_back(request);
    }
    ASSERT_FALSE(choosing.empty());
    for (const Request& request : choosing) {
      EXPECT_EQ(request.sampling.max_tokens, 1);
      EXPECT_GE(request.sampling.logit_bias.size(), 2u) << "no request where nothing is to choose";
      EXPECT_EQ(request.sampling.logit_bias.begin()->second, 100);
    }
  }
}

TEST_F(ForcedCallTest, ANameMayBeginLikeAnother) {
  // Always the first of the tokens, by bytes: get or get_all, never put.
  const auto rest = Script("");
  ScriptedRunner runner(tokenizer_, [&](const Request& request, std::uint32_t choice) {
    if (!IsChoosing(request)) return rest(request, choice);
    for (const auto& [token, bias] : request.sampling.logit_bias) {
      if (tokenizer_.TokenBytes(token).starts_with("p")) continue;
      if (!tokenizer_.TokenBytes(token).starts_with("_")) return std::vector<Token>{token};
    }
    return std::vector<Token>{request.sampling.logit_bias.begin()->first};
  });
  const Json reply = Answer(runner, Call(std::string(kRequired) + kNoThinking));
  EXPECT_EQ(Named(reply["choices"][0]), R"(get{"a": "x"})");
}

TEST_F(ForcedCallTest, ACallInTheReasoningIsEnough) {
  const std::string thoughts =
      "Hm\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"put\">\n" + std::string(kParameters);
  ScriptedRunner runner(tokenizer_, Script(thoughts));
  const Json reply = Answer(runner, Call(kNamed));
  EXPECT_EQ(Named(reply["choices"][0]), R"(put{"a": "x"})");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_THAT(runner.requests, SizeIs(1));
}

TEST_F(ForcedCallTest, EndsWhereThereIsNoRoom) {
  ScriptedRunner runner(tokenizer_, Script("Hm, yes, so it is.</think>"));
  Json reply = Answer(runner, Call(std::string(kNamed) + R"(, "max_tokens": 3)"));
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 3);
  EXPECT_THAT(runner.requests, SizeIs(1));
  ApiCall call = Call(kNamed);
  call.forced_call->max_context = std::ssize(call.requests[0].prompt) + 8;
  reply = Answer(runner, call);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
}

TEST_F(ForcedCallTest, Errors) {
  ScriptedRunner runner(tokenizer_, Script("Hm.</think>"));
  const ApiCall call = Call(kRequired);
  runner.n_refused = 1;
  const auto refused = SubmitForced(runner, call, call.requests[0]);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const ApiCall at_once = Call(std::string(kRequired) + kNoThinking);
  runner.n_refused = 1;
  EXPECT_FALSE(SubmitForced(runner, at_once, at_once.requests[0]));
  runner.n_refused = 1;
  runner.refuse_with = ErrorCode::kInvalidArgument;
  const auto invalid = SubmitForced(runner, at_once, at_once.requests[0]);
  ASSERT_FALSE(invalid);
  EXPECT_EQ(invalid.error().code, ErrorCode::kInvalidArgument);
  // Later there is an answer to put the error into.
  Json reply = Answer(runner, call, [&](RunningRequest&, const StreamEvent& event) {
    if (event.index == 0) runner.n_refused = 1;
  });
  EXPECT_EQ(reply["error"]["message"], "no");
  reply = Answer(runner, call, [&](RunningRequest&, const StreamEvent& event) {
    if (event.index == 0) runner.fails = true;
  });
  EXPECT_EQ(reply["error"]["message"], "NaN");
  EXPECT_EQ(runner.n_open, 0);
}

TEST_F(ForcedCallTest, WaitsForRoom) {
  ScriptedRunner runner(tokenizer_, Script("Hm.</think>"));
  const Json reply =
      Answer(runner, Call(kRequired), [&](RunningRequest&, const StreamEvent& event) {
        if (event.index == 0) runner.n_refused = 3;
      });
  EXPECT_EQ(Named(reply["choices"][0]), R"(put{"a": "x"})");
  EXPECT_EQ(runner.n_refused, 0);
}

TEST_F(ForcedCallTest, IsCancelled) {
  const std::size_t n_events = Tokens("Hm.</think>").size() + Tokens(kParameters).size();
  for (std::size_t at = 0; at + 2 < n_events; ++at) {
    ScriptedRunner runner(tokenizer_, Script("Hm.</think>"));
    std::size_t n_seen = 0;
    std::vector<FinishReason> finishes;
    Answer(runner, Call(kRequired), [&](RunningRequest& running, const StreamEvent& event) {
      if (n_seen++ == at) running.Cancel();
      if (event.finish) finishes.push_back(*event.finish);
    });
    EXPECT_THAT(finishes, ElementsAre(FinishReason::kCancelled)) << at;
    EXPECT_EQ(runner.n_open, 0);
  }
}

TEST_F(ForcedCallTest, DestroyingItEndsWhatRuns) {
  ScriptedRunner runner(tokenizer_, Script("Hm.</think>"));
  const ApiCall call = Call(kNamed);
  auto running = SubmitForced(runner, call, call.requests[0]);
  ASSERT_TRUE(running);
  EXPECT_EQ(runner.n_open, 1);
  running->reset();
  EXPECT_EQ(runner.n_open, 0);
}

}  // namespace
}  // namespace fathom
