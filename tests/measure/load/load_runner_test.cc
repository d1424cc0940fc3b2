// Levels of a load against a scripted server.
#include "measure/load/load_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/scripted_peer.h"

namespace fathom::measure::load {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::ChunkText;
using testing::ReplyText;
using testing::ScriptedConnection;
using testing::ScriptedPeer;
using testing::StreamEnd;
using testing::StreamHeader;

std::string Event(const std::string& data) { return ChunkText("data: " + data + "\n\n"); }

json MakeBody(const std::string& request) {
  return json::parse(request.substr(request.find("\r\n\r\n") + 4), nullptr, false);
}

// A completion of `max_tokens` tokens, each a chunk with its usage, `gap` before each.
void Answer(ScriptedConnection& connection, const json& body, milliseconds gap) {
  const int n_tokens = body["max_tokens"];
  const std::size_t n_input = body["prompt"].size();
  connection.Write(StreamHeader());
  for (int i = 1; i <= n_tokens; ++i) {
    std::this_thread::sleep_for(gap);
    const json chunk = {{"choices", {{{"text", "x"}}}},
                        {"usage", {{"prompt_tokens", n_input}, {"completion_tokens", i}}}};
    connection.Write(Event(chunk.dump()));
  }
  connection.Write(Event("[DONE]") + StreamEnd());
}

ScriptedPeer::Script Answers(milliseconds gap) {
  return [gap](ScriptedConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      Answer(connection, MakeBody(*request), gap);
    }
  };
}

LoadJob MakeJob(const ScriptedPeer& server) {
  return {.target = {.url = server.url(), .model = "m"},
          .workload = {.input = {.low = 7}, .output = {.low = 3}}};
}

bool GoOn(const LoadProgress&) { return true; }

int MostAtOnce(const std::vector<RequestRecord>& records) {
  int most = 0;
  for (const RequestRecord& one : records) {
    most = std::max(most, static_cast<int>(std::count_if(
                              records.begin(), records.end(), [&](const RequestRecord& other) {
                                return other.start_s <= one.start_s && one.start_s < other.end_s;
                              })));
  }
  return most;
}

TEST(LoadRunnerTest, AClosedLoopKeepsSoManyRunning) {
  const ScriptedPeer server(Answers(milliseconds(2)));
  LoadJob job = MakeJob(server);
  job.level.concurrency = 3;
  job.n_conversations = 12;
  const LoadResult result = RunLoad(job, GoOn);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.n_begun, 12);
  ASSERT_EQ(result.records.size(), 12u);
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.successful()) << record.failure << ": " << record.message;
    EXPECT_EQ(record.n_input, 7);
    EXPECT_EQ(record.n_output, 3);
    ASSERT_EQ(record.chunks.size(), 3u);
    EXPECT_GE(record.chunks[0].time_s, 0.002);
    EXPECT_GE(record.chunks[2].time_s, record.chunks[1].time_s);
    EXPECT_GE(record.end_s - record.start_s, record.chunks[2].time_s);
    EXPECT_LE(record.end_s, result.duration_s);
  }
  EXPECT_LE(MostAtOnce(result.records), 3);
  EXPECT_LE(server.n_connections(),
            3);  // connections are reused; fewer if a thread came when all was done
}

TEST(LoadRunnerTest, FewerRequestsThanStreamsAreEnough) {
  const ScriptedPeer server(Answers(milliseconds(0)));
  LoadJob job = MakeJob(server);
  job.level.concurrency = 8;
  job.n_conversations = 2;
  EXPECT_EQ(RunLoad(job, GoOn).records.size(), 2u);
  EXPECT_LE(server.n_connections(), 2);
}

// Each request takes 60 ms and one is due every 10 ms: an open loop does not wait for answers.
TEST(LoadRunnerTest, AnOpenLoopBeginsWhenRequestsAreDue) {
  const ScriptedPeer server(Answers(milliseconds(20)));
  LoadJob job = MakeJob(server);
  job.level = {.rate = 100, .arrival = {.shape = std::nullopt}};
  job.n_conversations = 10;
  LoadResult result = RunLoad(job, GoOn);
  ASSERT_EQ(result.records.size(), 10u);
  std::sort(result.records.begin(), result.records.end(),
            [](const auto& a, const auto& b) { return a.start_s < b.start_s; });
  for (std::size_t i = 0; i < result.records.size(); ++i) {
    EXPECT_TRUE(result.records[i].successful()) << result.records[i].message;
    EXPECT_NEAR(result.records[i].start_s, 0.01 * static_cast<double>(i), 1e-6);
  }
  EXPECT_GE(MostAtOnce(result.records), 3);
}

TEST(LoadRunnerTest, TimeEndsALevelAndWaitsForWhatRuns) {
  const ScriptedPeer server(Answers(milliseconds(10)));
  LoadJob job = MakeJob(server);
  job.seconds = 0.1;
  const LoadResult result = RunLoad(job, GoOn);
  EXPECT_FALSE(result.interrupted);
  // An answer takes 30 ms or more: requests begin at 0, 30, 60 and 90 ms, or later.
  ASSERT_GE(result.records.size(), 1u);
  EXPECT_LE(result.records.size(), 4u);
  EXPECT_EQ(result.n_begun, static_cast<std::int64_t>(result.records.size()));
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.successful()) << record.message;
  }
  EXPECT_GE(result.duration_s, 0.1);
}

TEST(LoadRunnerTest, TheSameJobAsksTheSame) {
  std::mutex mutex;
  std::vector<std::string> prompts;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const json body = MakeBody(*request);
      {
        const std::lock_guard lock(mutex);
        prompts.push_back(body["prompt"].dump());
      }
      Answer(connection, body, milliseconds(0));
    }
  });
  LoadJob job = MakeJob(server);
  job.n_conversations = 3;
  RunLoad(job, GoOn);
  RunLoad(job, GoOn);
  job.first_conversation = 3;
  RunLoad(job, GoOn);
  ASSERT_EQ(prompts.size(), 9u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(prompts[i], prompts[i + 3]);
    EXPECT_NE(prompts[i], prompts[i + 6]);
  }
}

TEST(LoadRunnerTest, TurnsCarryWhatWasSaid) {
  std::vector<json> bodies;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      bodies.push_back(MakeBody(*request));
      connection.Write(StreamHeader() + Event(R"({"choices":[{"delta":{"content":"answer"}}]})") +
                       Event("[DONE]") + StreamEnd());
    }
  });
  LoadJob job = MakeJob(server);
  job.target.endpoint = LoadEndpoint::kChat;
  job.workload.n_turns = 3;
  job.n_conversations = 1;
  const LoadResult result = RunLoad(job, GoOn);
  EXPECT_EQ(result.records.size(), 3u);
  ASSERT_EQ(bodies.size(), 3u);
  const json& messages = bodies[2]["messages"];
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0], bodies[0]["messages"][0]);
  EXPECT_EQ(messages[1], (json{{"role", "assistant"}, {"content", "answer"}}));
  EXPECT_EQ(messages[4]["role"], "user");
}

struct ApiCase {
  LoadEndpoint endpoint;
  const char* path;
  const char* asked;                // name of the turns in the body
  std::vector<std::string> events;  // answer "word" of two tokens, to a prompt of nine
};

// The name of the test.
std::ostream& operator<<(std::ostream& out, const ApiCase& api) {
  return out << Name(api.endpoint);
}

class LoadRunnerApiTest : public ::testing::TestWithParam<ApiCase> {};

TEST_P(LoadRunnerApiTest, CountsTokensAndCarriesWhatWasSaid) {
  std::vector<std::string> requests;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      requests.push_back(*request);
      connection.Write(StreamHeader());
      for (const std::string& event : GetParam().events) connection.Write(Event(event));
      connection.Write(StreamEnd());
    }
  });
  LoadJob job = MakeJob(server);
  job.target.endpoint = GetParam().endpoint;
  job.workload.n_turns = 2;
  job.n_conversations = 1;
  const LoadResult result = RunLoad(job, GoOn);
  ASSERT_EQ(result.records.size(), 2u);
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.successful()) << record.message;
    EXPECT_EQ(record.n_input, 9);
    EXPECT_EQ(record.n_output, 2);
    ASSERT_EQ(record.chunks.size(), 2u);
    EXPECT_GE(record.end_s - record.start_s, record.chunks[1].time_s);
  }
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[1].starts_with("POST " + std::string(GetParam().path) + " HTTP/1.1\r\n"));
  const json turns = MakeBody(requests[1])[GetParam().asked];
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[1], (json{{"role", "assistant"}, {"content", "word"}}));
}

INSTANTIATE_TEST_SUITE_P(
    Apis, LoadRunnerApiTest,
    ::testing::Values(
        ApiCase{LoadEndpoint::kResponses,
                "/v1/responses",
                "input",
                {R"({"type":"response.created","response":{}})",
                 R"({"type":"response.output_text.delta","delta":"wo"})",
                 R"({"type":"response.output_text.delta","delta":"rd"})",
                 R"({"type":"response.completed","response":{"usage":{"input_tokens":9,)"
                 R"("output_tokens":2}}})"}},
        ApiCase{LoadEndpoint::kMessages,
                "/v1/messages",
                "messages",
                {R"({"type":"message_start","message":{"usage":{"input_tokens":9,)"
                 R"("output_tokens":1}}})",
                 R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"wo"}})",
                 R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"rd"}})",
                 R"({"type":"message_delta","usage":{"output_tokens":2}})",
                 R"({"type":"message_stop"})"}}),
    [](const auto& one) { return std::string(Name(one.param.endpoint)); });

TEST(LoadRunnerTest, FailuresAreRecordedAndTheLoadGoesOn) {
  std::atomic<int> n_requests = 0;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      switch (n_requests++ % 4) {
        case 0:
          connection.Write(ReplyText(503, R"({"error":{"message":"busy"}})"));
          break;
        case 1:
          return;
        case 2:
          connection.Write(StreamHeader() + Event(R"({"error":{"message":"broke"}})") +
                           StreamEnd());
          break;
        default:
          Answer(connection, MakeBody(*request), milliseconds(0));
      }
    }
  });
  LoadJob job = MakeJob(server);
  job.n_conversations = 4;
  const LoadResult result = RunLoad(job, GoOn);
  ASSERT_EQ(result.records.size(), 4u);
  EXPECT_EQ(result.records[0].failure, "HTTP 503");
  EXPECT_EQ(result.records[0].message, "busy");
  EXPECT_EQ(result.records[1].failure, "no complete answer");
  EXPECT_THAT(result.records[1].message, ::testing::HasSubstr("without a reply"));
  EXPECT_EQ(result.records[2].failure, "error in the stream");
  EXPECT_EQ(result.records[2].message, "broke");
  EXPECT_TRUE(result.records[3].successful()) << result.records[3].message;
  EXPECT_EQ(std::ranges::count_if(result.records, &RequestRecord::successful), 1);
}

TEST(LoadRunnerTest, TheWatchCancelsWhatRuns) {
  std::atomic<int> n_waiting = 0;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    if (connection.ReadRequest()) {
      ++n_waiting;
      connection.WaitForClose();
    }
  });
  for (const std::optional<double> rate : {std::optional<double>(), std::optional<double>(1)}) {
    n_waiting = 0;
    LoadJob job = MakeJob(server);
    job.level = {.rate = rate, .concurrency = 2};
    job.n_conversations = 1000;
    const int n_wanted = rate ? 1 : 2;
    const LoadResult result =
        RunLoad(job, [&](const LoadProgress&) { return n_waiting < n_wanted; });
    EXPECT_TRUE(result.interrupted);
    ASSERT_GE(result.records.size(), static_cast<std::size_t>(n_wanted));
    for (const RequestRecord& record : result.records) {
      EXPECT_TRUE(record.cancelled);
    }
  }
}

}  // namespace
}  // namespace fathom::measure::load
