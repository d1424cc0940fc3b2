#include "cli/options/command_options.h"
#include "cli/options/option_values.h"
#include "http/http_client.h"
#include "measure/load/load_plan.h"
#include "measure/load/load_report.h"

namespace fathom::cli {
namespace {

constexpr double kLongestSeconds = 1e6;

void AddTarget(Command& command, BenchServeCommand& options) {
  command.Add({"--url", "URL",
               "Base URL of the server, http or https, with or without /v1 (default: "
               "http://127.0.0.1:8000)",
               [&options](const std::string& text) {
                 options.url = text;  // as the report shows it
                 return ParseServerUrl(text).map([](const std::string&) {});
               }});
  command.Add({"--endpoint", "NAME",
               "completions: prompts of token ids, exact in length (default); chat, responses, "
               "messages: prompts of words, of about that length",
               OneOf(load::kEndpointNames, options.target.endpoint)});
  command.Add({"--model", "NAME", "Model named in requests (default: the first of /v1/models)",
               Text(options.target.model)});
  command.Add({"--api-key", "KEY", "API key, sent as bearer token", Text(options.target.api_key)});
  command.Add({.names = "--api-key-file",
               .value = "FILE",
               .help = "A file with the key on its first line, hidden from other users",
               .read = Text(options.api_key_file),
               .excludes = {"--api-key"}});
  command.Add({"--request-timeout", "S", "Seconds after which a request has failed (default: 600)",
               NumberAbove(0, kLongestSeconds, options.request_timeout)});
}

void AddLoad(Command& command, BenchServeCommand& options) {
  command.Group("Load");
  command.Add({"--concurrency", "N,...",
               "Closed loop: this many requests at once, one level for each number (default: 1)",
               Integer(1, 4096, options.concurrency), Repeat::kCommas});
  command.Add({.names = "--rate",
               .value = "R,...",
               .help = "Open loop: conversations begun per second, one level for each",
               .read = NumberAbove(0, 1e5, options.rates),
               .repeat = Repeat::kCommas,
               .excludes = {"--concurrency"}});
  command.Add({"--arrival", "KIND",
               "Gaps of an open loop: poisson, constant or gamma:SHAPE, with a shape below 1 for "
               "bursts (default: poisson)",
               Parsed(load::ParseArrival, options.arrival)});
  command.Add({"--requests", "N", "Requests of a level (default: 100)",
               Integer(1, std::int64_t{1} << 40, options.n_requests)});
  command.Add({"--seconds", "S", "Seconds after which no request of a level begins",
               NumberAbove(0, kLongestSeconds, options.seconds)});
  command.Add({"--warmup", "N", "Warm-up requests before the first level (default: 1)",
               Integer(0, 1'000'000, options.n_warmup)});
}

void AddPrompts(Command& command, BenchServeCommand& options) {
  command.Group("Prompts and answers");
  command.Add({"--input-tokens", "LENGTH",
               "Tokens of a prompt: N, uniform:LOW:HIGH or lognormal:MEAN:SIGMA (default: 512)",
               Parsed(load::ParseLength, options.workload.input)});
  command.Add({"--output-tokens", "LENGTH",
               "Tokens of an answer, likewise (default: 128); end tokens are ignored",
               Parsed(load::ParseLength, options.workload.output)});
  command.Add({"--shared-prefix", "N",
               "Tokens of a group's common prefix, in front of --input-tokens (default: 0)",
               Integer(0, load::kMaxTokens, options.workload.shared_prefix)});
  command.Add({"--groups", "G", "Groups, each with its own prefix (default: 1)",
               Integer(1, 1'000'000, options.workload.n_groups)});
  command.Add({"--turns", "N", "Requests of a conversation, each with all before it (default: 1)",
               Integer(1, 1000, options.workload.n_turns)});
  command.Add({"--vocab", "V",
               "Token ids are drawn below this number; the model's vocabulary spreads experts "
               "as text does (default: 1024)",
               Integer(load::kFirstToken + 1, 1 << 24, options.workload.vocab_size)});
  command.Add(
      {"--temperature", "T", "(default: the server's)", Number(0, 2, options.target.temperature)});
  command.Add({"--seed", "N",
               "Same seed, same prompts and arrivals (default: 0); a new seed avoids hits in "
               "the server's cache",
               Seed(options.workload.seed)});
}

void AddReport(Command& command, BenchServeCommand& options) {
  command.Group("Report");
  command.Add({"--goodput", "TIME:MS",
               "Also count the requests that meet all objectives: ttft:MS tpot:MS e2e:MS",
               [&options](const std::string& text) {
                 return load::AddObjective(text, &options.objectives);
               },
               Repeat::kWords});
  command.Add({"--format", "NAME", "table, json or csv (default: table)",
               OneOf(kBenchFormatNames, options.format)});
  command.Add({"--plot", "FILE", "Also draw throughput and latency of the levels, as SVG",
               Text(options.plot)});
}

}  // namespace

void AddBenchServe(Command& bench, BenchServeCommand& options) {
  Command command = bench.AddCommand("serve", "Measure a running server under load, by HTTP");
  command.ExcludeOuterOptions();
  AddTarget(command, options);
  AddLoad(command, options);
  AddPrompts(command, options);
  AddReport(command, options);
  command.Footer(
      "Tokens are those of `usage`. A chunk of the stream may bring several; the time since the\n"
      "chunk before is divided by their number (ITL). Where the server says the number only at "
      "the\n"
      "end, a chunk counts as one. Ctrl-C ends early and reports what was measured.\n"
      "docs/bench_serve.md says what each figure means.\n"
      "Examples:\n"
      "  fathom bench serve --concurrency 1,2,4,8 --requests 64 --vocab 129280 --plot load.svg\n"
      "  fathom bench serve --rate 0.5,1,2 --seconds 60 --input-tokens lognormal:800:0.7 \\\n"
      "      --output-tokens uniform:50:300 --goodput ttft:1000 tpot:100\n"
      "  fathom bench serve --endpoint chat --shared-prefix 2000 --groups 4 --turns 3 --format "
      "json");
}

}  // namespace fathom::cli
