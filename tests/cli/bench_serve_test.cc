// The command line of bench serve, and whole runs against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/options/command_options.h"
#include "tests/cli/program.h"
#include "tests/testing/scripted_peer.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns the parser's error about a command line; "" if there is none.
std::string Parse(const std::string& arguments, cli::BenchServeCommand& command) {
  cli::Parser parser("", "", "");
  cli::Command root = parser.root();
  cli::AddBenchServe(root, command);
  return parser.Parse(SplitAtBlanks(arguments)).error;
}

TEST(BenchServeOptionsTest, Defaults) {
  cli::BenchServeCommand command;
  EXPECT_EQ(Parse("serve", command), "");
  EXPECT_EQ(command.url, "http://127.0.0.1:8000");
  EXPECT_EQ(command.target.endpoint, load::LoadEndpoint::kCompletions);
  EXPECT_TRUE(command.concurrency.empty());
  EXPECT_TRUE(command.rates.empty());
  EXPECT_EQ(command.n_requests, std::nullopt);
  EXPECT_EQ(command.format, cli::BenchFormat::kTable);
}

TEST(BenchServeOptionsTest, AllOfThem) {
  cli::BenchServeCommand command;
  EXPECT_EQ(Parse("serve --url http://a:1 --endpoint chat --model m --api-key k --rate 0.5,2 "
                  "--arrival gamma:0.5 --requests 7 --seconds 1.5 --warmup 0 --input-tokens "
                  "uniform:1:2 --output-tokens lognormal:5:1 --shared-prefix 3 --groups 4 --turns "
                  "5 --vocab 100 --temperature 0 --seed 9 --goodput ttft:1 tpot:2 "
                  "--request-timeout 8 --format csv --plot p.svg",
                  command),
            "");
  EXPECT_EQ(command.target.endpoint, load::LoadEndpoint::kChat);
  EXPECT_EQ(command.target.model, "m");
  EXPECT_EQ(command.target.api_key, "k");
  EXPECT_THAT(command.rates, ElementsAre(0.5, 2.0));
  EXPECT_EQ(command.n_requests, 7);
  EXPECT_EQ(command.seconds, 1.5);
  EXPECT_EQ(command.n_warmup, 0);
  EXPECT_EQ(command.workload.shared_prefix, 3);
  EXPECT_EQ(command.workload.n_groups, 4);
  EXPECT_EQ(command.workload.n_turns, 5);
  EXPECT_EQ(command.workload.vocab_size, 100);
  EXPECT_EQ(command.target.temperature, 0.0);
  EXPECT_EQ(command.workload.seed, 9u);
  EXPECT_EQ(command.url, "http://a:1");
  EXPECT_EQ(command.arrival.shape, 0.5);
  EXPECT_EQ(command.workload.input.high, 2);
  EXPECT_EQ(command.workload.output.mean, 5);
  EXPECT_EQ(command.objectives.ttft_ms, 1.0);
  EXPECT_EQ(command.objectives.tpot_ms, 2.0);
  EXPECT_EQ(command.objectives.e2e_ms, std::nullopt);
  EXPECT_EQ(command.request_timeout, 8);
  EXPECT_EQ(command.format, cli::BenchFormat::kCsv);
  EXPECT_EQ(command.plot, "p.svg");
}

TEST(BenchServeOptionsTest, WrongOnesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"--url ftp://a", "expected http://HOST"},
      {"--url a:1", "expected http://HOST"},
      {"--endpoint words", "one of completions chat responses messages"},
      {"--concurrency 0", "from 1 to 4096"},
      {"--concurrency 1,x", "from 1 to 4096"},
      {"--rate 0", "above 0"},
      {"--rate 1 --concurrency 1", "excludes"},
      {"--arrival often", "expected constant, poisson"},
      {"--input-tokens 0", "expected a number of tokens"},
      {"--vocab 3", "from 4"},
      {"--goodput itl:5", "expected ttft:MS"},
      {"--format xml", "one of table json csv"},
      {"--api-key a --api-key-file b", "excludes"}};
  for (const auto& [arguments, message] : cases) {
    cli::BenchServeCommand command;
    EXPECT_THAT(Parse(std::string("serve ") + arguments, command), HasSubstr(message));
  }
}

TEST(BenchServeProgramTest, OptionsOfBenchAreRefused) {
  ExpectRefusal(RunProgram({"bench", "--rows", "tg1", "serve"}), 2, "--rows");
  ExpectRefusal(RunProgram({"bench", "serve", "--rows", "tg1"}), 2, "--rows");
  const ProgramRun run = RunProgram({"bench", "serve", "--bogus"});
  ExpectRefusal(run, 2, "unknown option --bogus");
  EXPECT_THAT(run.error, HasSubstr("Try: fathom bench serve --help"));
}

TEST(BenchServeProgramTest, HelpSaysHowTokensAreTimed) {
  const ProgramRun run = RunProgram({"bench", "serve", "--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("divided by their number (ITL)"));
  EXPECT_THAT(RunProgram({"bench", "--help"}).out, HasSubstr("serve"));
}

// Two tokens to every completion, the name of a model, 404 to everything else.
void Serve(ScriptedConnection& connection) {
  while (const auto request = connection.ReadRequest()) {
    if (request->starts_with("GET /v1/models ")) {
      connection.Write(ReplyText(200, R"({"data":[{"id":"some-model"}]})"));
    } else if (request->starts_with("POST /v1/completions ")) {
      connection.Write(
          StreamHeader() + ChunkText("data: {\"choices\":[{\"text\":\"a\"}]}\n\n") +
          ChunkText("data: {\"choices\":[{\"text\":\"b\"}]}\n\ndata: {\"choices\":[],\"usage\":{"
                    "\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n") +
          StreamEnd());
    } else {
      connection.Write(ReplyText(404, R"({"error":{"message":"no such path"}})"));
    }
  }
}

TEST(BenchServeProgramTest, MeasuresEveryLevel) {
  const ScriptedPeer server(Serve);
  const TemporaryDirectory directory;
  const std::string plot = directory.path() / "load.svg";
  const ProgramRun run =
      RunProgram({"bench", "serve", "--url", server.url(), "--concurrency", "1,3", "--requests",
                  "6", "--format", "json", "--plot", plot, "--goodput", "ttft:60000"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const nlohmann::json report = ParseOutput(run);
  EXPECT_EQ(report["model"], "some-model");
  ASSERT_EQ(report["levels"].size(), 2u);
  for (const nlohmann::json& level : report["levels"]) {
    EXPECT_EQ(level["successful_requests"], 6);
    EXPECT_EQ(level["failed_requests"], 0);
    EXPECT_EQ(level["input_tokens"], 54);
    EXPECT_EQ(level["output_tokens"], 12);
    EXPECT_GT(level["ttft_ms"]["mean"], 0.0);
    EXPECT_EQ(level["goodput"], level["request_throughput"]);
  }
  EXPECT_EQ(report["levels"][1]["concurrency"], 3);
  EXPECT_THAT(ReadFile(plot), HasSubstr("some-model"));
}

TEST(BenchServeProgramTest, PrintsATableOfAnOpenLoop) {
  const ScriptedPeer server(Serve);
  const ProgramRun run = RunProgram({"bench", "serve", "--url", server.url(), "--rate", "200",
                                     "--requests", "5", "--model", "m"});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, StartsWith("server  " + server.url() + ", completions\nmodel   m\n"));
  EXPECT_THAT(run.out, HasSubstr("200 req/s"));
}

// Clients of OpenAI's API name the server with its version.
TEST(BenchServeProgramTest, TheUrlMayEndWithTheVersion) {
  const ScriptedPeer server(Serve);
  for (const char* end : {"/v1", "/v1/"}) {
    const ProgramRun run = RunProgram(
        {"bench", "serve", "--url", server.url() + end, "--requests", "2", "--model", "m"});
    ASSERT_EQ(run.exit_code, 0) << run.error;
    EXPECT_THAT(run.out, HasSubstr("model   m\n"));
  }
}

TEST(BenchServeProgramTest, SaysWhyNothingWasAnswered) {
  const ScriptedPeer server(Serve);
  ExpectRefusal(RunProgram({"bench", "serve", "--url", server.url(), "--endpoint", "chat",
                            "--requests", "2"}),
                1, "no request was answered: HTTP 404: no such path");
}

TEST(BenchServeProgramTest, SaysThatThereIsNoServer) {
  std::string url;
  {
    const ScriptedPeer server(Serve);
    url = server.url();
  }
  ExpectRefusal(RunProgram({"bench", "serve", "--url", url}), 1,
                url + ": GET /v1/models: cannot connect");
}

TEST(BenchServeProgramTest, ReadsTheKeyOfAFile) {
  std::string seen;
  const ScriptedPeer server([&](ScriptedConnection& connection) {
    seen = connection.ReadRequest().value_or("");
    connection.Write(ReplyText(401, "{}"));
    connection.WaitForClose();
  });
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "key";
  std::ofstream(file) << "secret\nnote\n";
  ExpectRefusal(RunProgram({"bench", "serve", "--url", server.url(), "--api-key-file", file}), 1,
                "HTTP 401");
  EXPECT_THAT(seen, HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  std::ofstream(file, std::ios::trunc) << "\n";
  ExpectRefusal(RunProgram({"bench", "serve", "--url", server.url(), "--api-key-file", file}), 1,
                "expected a key on the first line");
}

}  // namespace
}  // namespace fathom::testing
