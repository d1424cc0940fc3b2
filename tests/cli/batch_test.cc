// Batches without a model: answers come from a thread that plays the engine.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/batch/batch_run.h"
#include "tests/api/fake_constraint.h"
#include "tests/cli/fake_runner.h"
#include "tests/testing/shared_data.h"

namespace fathom::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string Line(const std::string& custom_id, const std::string& fields = "") {
  return R"({"custom_id": ")" + custom_id +
         R"(", "method": "POST", "url": "/v1/completions", "body": {"prompt": ")" + custom_id +
         "\"" + fields + "}}\n";
}

std::string ChatLine(const std::string& custom_id) {
  return R"({"custom_id": ")" + custom_id +
         R"(", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": )"
         R"([{"role": "user", "content": "Hi"}], "reasoning_effort": "none"}})"
         "\n";
}

// Plays a model that calls a tool, and then writes until it is cancelled.
class CallingRunner final : public RequestRunner {
 public:
  Result<std::unique_ptr<RunningRequest>> Submit(Request request) override {
    requests.push_back(std::move(request));
    return std::make_unique<Stream>();
  }

  std::vector<Request> requests;

 private:
  struct Stream final : RunningRequest {
    std::optional<bool> NextFor(std::chrono::milliseconds, StreamEvent& event) override {
      if (has_ended) return false;
      event = {.token = 5, .index = n_events++, .text = "chatter"};
      if (event.index == 0) {
        event.text =
            "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
            "string=\"false\">1</｜DSML｜parameter>\n"
            "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
      }
      has_ended = is_cancelled;
      if (is_cancelled) event.finish = FinishReason::kCancelled;
      return true;
    }
    RequestStats stats() const override { return {}; }
    void Cancel() override { is_cancelled = true; }

    std::int64_t n_events = 0;
    bool is_cancelled = false;
    bool has_ended = false;
  };
};

class BatchTest : public ::testing::Test {
 protected:
  BatchTest() : tokenizer_(*Tokenizer::Load(testing::ProjectPath("models/fairy"))) {
    model_ = {.tokenizer = &tokenizer_,
              .profile = PreviewProfile(),
              .name = "fairy",
              .fingerprint = "fp",
              .limits = {.vocab_size = tokenizer_.vocab_size(), .max_context = 64},
              .compile_constraint = compiler_.Function()};
  }

  std::string out() const { return directory_.path() / "out.jsonl"; }

  // Runs the whole command except the engine.
  Status Run(
      const std::string& input, RequestRunner& runner,
      const BatchWatch& watch = [](const BatchTotals&) { return true; }) {
    Result<BatchOutput> output = BatchOutput::Open(out(), "-");
    if (!output) return Unexpected(output.error());
    plan_ = PlanBatch(input, *output);
    BatchRun run(model_, runner, *output, SystemRandomBits());
    const Status status = run.Run(input, watch);
    totals_ = run.totals();
    return status;
  }

  // The lines of the output.
  std::vector<Json> Lines() const {
    std::vector<Json> lines;
    std::ifstream file(out());
    for (std::string line; std::getline(file, line);) {
      lines.push_back(Json::parse(line, nullptr, false));
      EXPECT_TRUE(lines.back().is_object()) << line;
    }
    return lines;
  }

  std::map<std::string, int> CountIds() const {
    std::map<std::string, int> counts;
    for (const Json& line : Lines()) ++counts[line["custom_id"].dump()];
    return counts;
  }

  void WriteOut(const std::string& text) const { std::ofstream(out()) << text; }

  const testing::TemporaryDirectory directory_;
  const Tokenizer tokenizer_;
  testing::FakeCompiler compiler_;
  ApiModel model_;
  BatchPlan plan_;
  BatchTotals totals_;
};

TEST_F(BatchTest, EveryLineGetsItsAnswer) {
  std::string input;
  for (int i = 0; i < 200; ++i) input += Line("r" + std::to_string(i), R"(, "max_tokens": 3)");
  input += ChatLine("chat");
  testing::FakeRunner runner({.max_open = 7, .tokens_per_answer = 3});
  const Status status = Run(input, runner);
  ASSERT_TRUE(status) << status.error().message;
  const std::vector<Json> lines = Lines();
  ASSERT_EQ(lines.size(), 201u);
  std::set<std::string> ids;
  std::set<std::string> request_ids;
  for (const Json& line : lines) {
    EXPECT_EQ(line["error"], nullptr);
    EXPECT_EQ(line["response"]["status_code"], 200);
    ids.insert(line["custom_id"].get<std::string>());
    request_ids.insert(line["response"]["request_id"].get<std::string>());
    if (line["custom_id"] == "chat") {
      EXPECT_EQ(line["response"]["body"]["object"], "chat.completion");
    } else {
      EXPECT_EQ(line["response"]["body"]["object"], "text_completion");
      // The fake answers with the prompt's last token, so answers cannot be mixed up unseen.
      const std::vector<Token> prompt =
          *tokenizer_.Encode(line["custom_id"].get<std::string>(), SpecialTokens::kParse);
      const std::string last(tokenizer_.TokenBytes(prompt.back()));
      EXPECT_EQ(line["response"]["body"]["choices"][0]["text"], last + last + last);
    }
  }
  EXPECT_EQ(ids.size(), 201u);
  EXPECT_EQ(request_ids.size(), 201u);
  EXPECT_EQ(runner.most_open(), 7) << "as many at once as the engine takes";
  EXPECT_GT(runner.n_refused(), 0);
  EXPECT_EQ(totals_.n_done, 201);
  EXPECT_EQ(totals_.n_errors, 0);
  EXPECT_EQ(totals_.n_generated, 603);
  EXPECT_EQ(totals_.usage.completion_tokens, 603);
  EXPECT_EQ(plan_.n_open, 201);
}

TEST_F(BatchTest, ForcedCallsEndWithTheirBlock) {
  model_.limits.max_context = 1000;
  CallingRunner runner;
  const Status status = Run(
      R"({"custom_id": "call", "method": "POST", "url": "/v1/chat/completions", "body": {)"
      R"("messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "none", "tools": [)"
      R"({"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}})"
      "\n",
      runner);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(runner.requests.size(), 1u);
  EXPECT_EQ(testing::SpecFrom(runner.requests[0].sampling.constraint).tools.kind,
            ToolConstraint::Kind::kRequired);
  const Json body = Lines()[0]["response"]["body"];
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  const Json& call = body["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call.dump(), R"({"name":"f","arguments":"{\"a\": 1}"})");
  EXPECT_EQ(body["usage"]["completion_tokens"], 1) << "what came after the block is not counted";
}

TEST_F(BatchTest, BodiesOfTheOtherApis) {
  model_.limits.max_context = 1000;
  const auto line = [](const std::string& custom_id, const std::string& url,
                       const std::string& body) {
    return R"({"custom_id": ")" + custom_id + R"(", "method": "POST", "url": ")" + url +
           R"(", "body": )" + body + "}\n";
  };
  CallingRunner runner;
  const Status status =
      Run(line("response", "/v1/responses",
               R"({"input": "Hi", "reasoning": {"effort": "none"}, "tool_choice": "required",)"
               R"( "tools": [{"type": "function", "name": "f"}]})") +
              line("message", "/v1/messages",
                   R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50,)"
                   R"( "thinking": {"type": "disabled"}, "tool_choice": {"type": "any"},)"
                   R"( "tools": [{"name": "f", "input_schema": {}}]})") +
              line("wrong", "/v1/messages", R"({"messages": []})"),
          runner);
  ASSERT_TRUE(status) << status.error().message;
  std::map<std::string, Json> by_id;
  for (const Json& answer : Lines()) {
    by_id[answer["custom_id"].get<std::string>()] = answer["response"];
  }
  const Json& item = by_id["response"]["body"]["output"][0];
  EXPECT_EQ(item["type"], "function_call");
  EXPECT_EQ(item["arguments"], R"({"a": 1})");
  const Json& message = by_id["message"]["body"];
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["content"][0]["input"].dump(), R"({"a":1})");
  EXPECT_EQ(by_id["wrong"]["status_code"], 400);
  EXPECT_EQ(by_id["wrong"]["body"]["type"], "error");
}

// Other paths of the server have other defaults, or are other names of the documented ones.
TEST_F(BatchTest, OtherEndpointsAreRefused) {
  const std::vector<std::string> urls = {"/api/chat", "/api/generate", "/chat/completions",
                                         "/v1/messages/count_tokens", ""};
  std::string input;
  for (const std::string& url : urls) {
    input += R"({"custom_id": "of )" + url + R"(", "method": "POST", "url": ")" + url +
             R"(", "body": {"messages": [{"role": "user", "content": "Hi"}]}})" + "\n";
  }
  testing::FakeRunner runner({});
  ASSERT_TRUE(Run(input, runner));
  ASSERT_EQ(Lines().size(), urls.size());
  for (std::size_t i = 0; i < urls.size(); ++i) {
    const Json line = Lines()[i];
    EXPECT_EQ(line["custom_id"], "of " + urls[i]);
    EXPECT_EQ(line["response"], nullptr);
    EXPECT_EQ(line["error"]["message"],
              "line " + std::to_string(i + 1) +
                  ": url: expected /v1/chat/completions, /v1/completions, /v1/responses or "
                  "/v1/messages, found " +
                  (urls[i].empty() ? "nothing" : '"' + urls[i] + '"'));
  }
}

TEST_F(BatchTest, GoldenLine) {
  testing::FakeRunner runner({.max_open = 1, .tokens_per_answer = 1});
  ASSERT_TRUE(Run(Line("a\\\"b"), runner));
  ASSERT_EQ(Lines().size(), 1u);
  Json line = Lines()[0];
  EXPECT_TRUE(line["id"].get<std::string>().starts_with("batch_req_"));
  EXPECT_TRUE(line["response"]["request_id"].get<std::string>().starts_with("req_"));
  line["id"] = "ID";
  line["response"]["request_id"] = "ID";
  line["response"]["body"] = nullptr;
  EXPECT_EQ(line.dump(),
            R"({"id":"ID","custom_id":"a\"b","response":{"status_code":200,"request_id":"ID",)"
            R"("body":null},"error":null})");
}

TEST_F(BatchTest, WrongLinesSaySoAndTheOthersRun) {
  const std::string input =
      "\n"
      "{not json\n" +
      Line("a") +
      "[]\n"
      "{\"method\": \"POST\"}\r\n"
      "{\"custom_id\": 5}\n" +
      Line("a") +
      R"({"custom_id": "b", "method": "GET", "url": "/v1/completions", "body": {}})"
      "\n"
      R"({"custom_id": "c", "method": "POST", "url": "/v1/embeddings", "body": {}})"
      "\n"
      R"({"custom_id": "d", "method": "POST", "url": "/v1/completions", "body": 5})"
      "\n" +
      Line("bad", R"(, "temperature": 7)") + Line("stream", R"(, "stream": true)") + "   \n" +
      R"({"custom_id": "last", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}})";
  testing::FakeRunner runner({});
  const Status status = Run(input, runner);
  ASSERT_TRUE(status) << status.error().message;
  std::map<std::string, Json> by_id;
  for (const Json& line : Lines()) by_id[line["id"].get<std::string>()] = line;
  const auto error = [&](int line) { return by_id["batch_line_" + std::to_string(line)]["error"]; };
  EXPECT_EQ(error(2)["code"], "invalid_json_line");
  EXPECT_THAT(error(2)["message"].get<std::string>(), HasSubstr("line 2: JSON, byte 1"));
  EXPECT_EQ(error(4)["code"], "invalid_json_line");
  EXPECT_EQ(error(5)["code"], "missing_custom_id");
  EXPECT_EQ(error(6)["code"], "missing_custom_id");
  EXPECT_EQ(error(7)["code"], "duplicate_custom_id");
  EXPECT_EQ(by_id["batch_line_7"]["custom_id"], "a");
  EXPECT_EQ(error(8)["message"], "line 8: method: expected POST, found \"GET\"");
  EXPECT_THAT(error(9)["message"].get<std::string>(), HasSubstr("url: expected"));
  EXPECT_EQ(error(10)["message"], "line 10: body: expected an object, found 5");
  for (const auto& [id, line] : by_id) {
    if (id.starts_with("batch_line_")) {
      EXPECT_EQ(line["response"], nullptr);
    }
  }
  for (const Json& line : Lines()) {
    if (line["custom_id"] == "bad") {
      EXPECT_EQ(line["response"]["status_code"], 400);
      EXPECT_EQ(line["response"]["body"]["error"]["param"], "temperature");
      EXPECT_EQ(line["error"], nullptr);
    } else if (line["custom_id"] == "stream") {
      EXPECT_EQ(line["response"]["body"]["error"]["param"], "stream");
    } else if (line["custom_id"] == "last") {
      EXPECT_EQ(line["response"]["status_code"], 200) << "a last line needs no newline";
    }
  }
  EXPECT_EQ(Lines().size(), 12u);
  EXPECT_EQ(totals_.n_errors, 10);

  // Once more: nothing twice, not even the errors.
  const std::string before = testing::ReadFile(out());
  ASSERT_TRUE(Run(input, runner));
  EXPECT_EQ(testing::ReadFile(out()), before);
  EXPECT_EQ(plan_.n_open, 0);
  EXPECT_EQ(plan_.n_lines, 12);
}

TEST_F(BatchTest, ManyPromptsInOneLine) {
  std::string prompts = R"(["p0")";
  for (int i = 1; i < 50; ++i) prompts += ", \"p" + std::to_string(i) + "\"";
  const std::string input = R"({"custom_id": "a", "method": "POST", "url": "/v1/completions",)"
                            R"("body": {"n": 2, "prompt": )" +
                            prompts + "]}}\n" + Line("b");
  // Fewer at once than the line needs: its own streams must be read for it to go on.
  testing::FakeRunner runner({.max_open = 3, .tokens_per_answer = 2});
  const Status status = Run(input, runner);
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(Lines().size(), 2u);
  for (const Json& line : Lines()) {
    EXPECT_EQ(line["response"]["body"]["choices"].size(), line["custom_id"] == "a" ? 100u : 1u);
  }
}

TEST_F(BatchTest, GoesOnWhereItWasStopped) {
  std::string input;
  for (int i = 0; i < 60; ++i) input += Line("r" + std::to_string(i));
  testing::FakeRunner runner({.max_open = 4});
  for (int run = 0; run < 100; ++run) {
    const Status status =
        Run(input, runner, [](const BatchTotals& totals) { return totals.n_done < 7; });
    if (status) break;
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    // As after a power failure in the middle of a line.
    std::ofstream(out(), std::ios::app) << R"({"id":"batch_req_x","custom_)";
  }
  const std::map<std::string, int> counts = CountIds();
  EXPECT_EQ(counts.size(), 60u);
  for (const auto& [id, count] : counts) EXPECT_EQ(count, 1) << id;
}

TEST_F(BatchTest, ATornLineOfAnyLengthIsCutOff) {
  testing::FakeRunner runner({});
  ASSERT_TRUE(Run(Line("a"), runner));
  const std::string whole = testing::ReadFile(out());
  for (std::size_t n_bytes = 0; n_bytes < whole.size(); ++n_bytes) {
    WriteOut(whole + whole.substr(0, n_bytes));
    ASSERT_TRUE(Run(Line("a"), runner)) << n_bytes;
    ASSERT_EQ(testing::ReadFile(out()), whole) << n_bytes;
  }
}

TEST_F(BatchTest, FilesOfOthersAreLeftAlone) {
  testing::FakeRunner runner({});
  for (const char* text : {"a text\n", "a text", "{}\n", "{\"id\": 5}\n", "[1, 2]\n", "\n",
                           "{\"custom_id\":\"a\"}\n"}) {
    WriteOut(text);
    const Status status = Run(Line("a"), runner);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidData);
    EXPECT_THAT(status.error().message, HasSubstr(out()));
    EXPECT_EQ(testing::ReadFile(out()), text);
  }
}

TEST_F(BatchTest, OutputThatCannotBe) {
  const std::string directory = directory_.path();
  Result<BatchOutput> output = BatchOutput::Open(directory, "-");
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().message, HasSubstr("cannot write"));
  EXPECT_FALSE(BatchOutput::Open(directory + "/missing/out", "-"));
  EXPECT_FALSE(BatchOutput::Open("/dev/null", "-"));
  WriteOut("");
  output = BatchOutput::Open(out(), out());
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().message, HasSubstr("expected another file than the input"));
  std::filesystem::create_symlink(out(), directory + "/link");
  EXPECT_FALSE(BatchOutput::Open(directory + "/link", out())) << "the same by another name";
}

TEST_F(BatchTest, TwoRunsCannotMix) {
  std::optional<Result<BatchOutput>> first = BatchOutput::Open(out(), "-");
  ASSERT_TRUE(*first);
  const Result<BatchOutput> second = BatchOutput::Open(out(), "-");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another batch is writing to it"));
  first.reset();
  EXPECT_TRUE(BatchOutput::Open(out(), "-")) << "the lock ends with the run";
}

TEST_F(BatchTest, AFullDiskLeavesCompleteLines) {
  std::string input;
  for (int i = 0; i < 20; ++i) input += Line("r" + std::to_string(i));
  testing::FakeRunner runner({});
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 2000;  // a few lines, and a part of one
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = Run(input, runner);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("the same command goes on from there"));
  const std::string kept = testing::ReadFile(out());
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.back(), '\n');
  ASSERT_TRUE(Run(input, runner));
  EXPECT_EQ(testing::ReadFile(out()).substr(0, kept.size()), kept);
  EXPECT_EQ(CountIds().size(), 20u);
  EXPECT_EQ(Lines().size(), 20u);
}

TEST_F(BatchTest, AnOutputThatOthersChangeEndsTheRun) {
  std::string input;
  for (int i = 0; i < 20; ++i) input += Line("r" + std::to_string(i));
  const std::vector<std::function<void()>> changes = {
      [&] { std::filesystem::resize_file(out(), std::filesystem::file_size(out()) / 2); },
      [&] { std::filesystem::resize_file(out(), 0); },
      [&] { std::ofstream(out(), std::ios::app) << "{}\n"; },
      [&] { std::filesystem::remove(out()); },
  };
  for (const std::function<void()>& change : changes) {
    std::filesystem::remove(out());
    testing::FakeRunner runner({.max_open = 4});
    bool is_changed = false;
    const Status status = Run(input, runner, [&](const BatchTotals& totals) {
      if (totals.n_done >= 4 && !is_changed) {
        is_changed = true;
        change();
      }
      return true;
    });
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr(out()));
  }
}

TEST_F(BatchTest, AnOutputThatWasShortenedIsCompletedByTheNextRun) {
  testing::FakeRunner runner({.max_open = 1});
  const std::string input = Line("a") + Line("b") + Line("c");
  ASSERT_FALSE(Run(input, runner, [&](const BatchTotals& totals) {
    if (totals.n_done == 2) std::filesystem::resize_file(out(), 10);
    return true;
  }));
  ASSERT_TRUE(Run(input, runner));
  EXPECT_EQ(CountIds().size(), 3u);
  EXPECT_EQ(Lines().size(), 3u);
}

TEST_F(BatchTest, ErrorsOfAnEarlierRunAreCounted) {
  testing::FakeRunner runner(
      {.refuse_token = tokenizer_.Encode("q", SpecialTokens::kParse)->back()});
  const std::string input = Line("a") + Line("q") + "no JSON\n" + Line("a");
  ASSERT_TRUE(Run(input, runner));
  EXPECT_EQ(totals_.n_errors, 3);
  EXPECT_EQ(plan_.n_kept_errors, 0);
  ASSERT_TRUE(Run(input, runner));
  EXPECT_EQ(totals_.n_errors, 0);
  EXPECT_EQ(plan_.n_kept_errors, 3);
  EXPECT_THAT(BatchSummary(totals_, plan_, 0),
              HasSubstr("4 of 4 requests (4 kept from before), 3 errors"));
}

TEST_F(BatchTest, WhatTheEngineRefusesIsAnAnswer) {
  testing::FakeRunner runner(
      {.refuse_token = tokenizer_.Encode("q", SpecialTokens::kParse)->back()});
  ASSERT_TRUE(Run(Line("a") + Line("q") + Line("b"), runner));
  ASSERT_EQ(Lines().size(), 3u);
  for (const Json& line : Lines()) {
    EXPECT_EQ(line["response"]["status_code"], line["custom_id"] == "q" ? 400 : 200);
  }
  EXPECT_EQ(totals_.n_errors, 1);
}

TEST_F(BatchTest, AFailedAnswerIsAnError) {
  testing::FakeRunner runner({.fail_token = tokenizer_.Encode("q", SpecialTokens::kParse)->back()});
  ASSERT_TRUE(Run(Line("a") + Line("q"), runner));
  for (const Json& line : Lines()) {
    EXPECT_EQ(line["response"]["status_code"], line["custom_id"] == "q" ? 500 : 200);
  }
}

TEST_F(BatchTest, AnEngineThatGoesAwayEndsTheRun) {
  testing::FakeRunner runner({.shut_down_after = 5});
  std::string input;
  for (int i = 0; i < 20; ++i) input += Line("r" + std::to_string(i));
  const Status status = Run(input, runner);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(status.error().message, "");
  EXPECT_EQ(totals_.n_errors, 0) << "what was cut off is left to the next run";
}

TEST(BatchReportTest, Texts) {
  const BatchTotals totals = {.n_done = 12,
                              .n_errors = 1,
                              .usage = {.prompt_tokens = 400, .cached_tokens = 30},
                              .n_generated = 600};
  EXPECT_EQ(BatchProgress(totals, 300, 10),
            "batch 12/300, in 40.0, out 60.0 tokens/s, 4 min 0 s left");
  EXPECT_EQ(BatchProgress({}, 300, 0), "batch 0/300, in 0.0, out 0.0 tokens/s");
  EXPECT_EQ(BatchSummary(totals, {.n_lines = 302, .n_open = 300}, 10),
            "14 of 302 requests (2 kept from before), 1 error; tokens: prompt 400 (30 cached), "
            "generated 600; 10.0 s, 40.0 prompt tokens/s, 60.0 generated tokens/s");
}

}  // namespace
}  // namespace fathom::cli
