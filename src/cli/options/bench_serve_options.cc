#include "cli/options/bench_serve_options.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "cli/options/option_checks.h"
#include "http/http_client.h"
#include "measure/load/length.h"
#include "measure/load/load_endpoint.h"
#include "measure/load/load_plan.h"
#include "measure/load/load_summary.h"

namespace fathom::cli {
namespace {

constexpr const char* kLoadGroup = "Load";
constexpr const char* kPromptGroup = "Prompts and answers";
constexpr const char* kReportGroup = "Report";
constexpr double kLongestSeconds = 1e6;

// A check by what reads the text later.
template <class Parse>
CLI::Validator ReadBy(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto read = parse(text);
        return read ? std::string() : read.error().message;
      },
      "", "");
}

void AddTarget(CLI::App* command, BenchServeCommand& options) {
  command
      ->add_option(
          "--url", options.url,
          "The server, http or https (default: http://127.0.0.1:8000); /v1/... goes behind it")
      ->type_name("URL")
      ->check(ReadBy(ParseServerUrl));
  command
      ->add_option("--endpoint", options.endpoint,
                   "completions: prompts of token ids, exact in length (default); chat, responses, "
                   "messages: prompts of words, of about that length")
      ->type_name("NAME")
      ->check(OneOf({load::kEndpointNames.begin(), load::kEndpointNames.end()}));
  command->add_option("--model", options.model, "Its model (default: the first of /v1/models)")
      ->type_name("NAME");
  CLI::Option* key =
      command->add_option("--api-key", options.api_key, "Sent as bearer token")->type_name("KEY");
  command
      ->add_option("--api-key-file", options.api_key_file,
                   "A file with the key on its first line: others see arguments")
      ->type_name("FILE")
      ->excludes(key);
  command
      ->add_option("--request-timeout", options.request_timeout,
                   "Seconds until a request has failed (default: 600)")
      ->type_name("S")
      ->check(NumberAbove(0, kLongestSeconds));
}

void AddLoad(CLI::App* command, BenchServeCommand& options) {
  command->option_defaults()->group(kLoadGroup);
  CLI::Option* concurrency =
      command
          ->add_option("--concurrency", options.concurrency,
                       "Closed loop: so many requests at once, one level for each (default: 1)")
          ->type_name("N,...")
          ->delimiter(',')
          ->check(Integer(1, 4096));
  command
      ->add_option("--rate", options.rates,
                   "Open loop: conversations begun per second, one level for each")
      ->type_name("R,...")
      ->delimiter(',')
      ->check(NumberAbove(0, 1e5))
      ->excludes(concurrency);
  command
      ->add_option("--arrival", options.arrival,
                   "Gaps of an open loop: poisson, constant or gamma:SHAPE, with a shape below 1 "
                   "for bursts (default: poisson)")
      ->type_name("KIND")
      ->check(ReadBy(load::ParseArrival));
  command->add_option("--requests", options.n_requests, "Requests of a level (default: 100)")
      ->type_name("N")
      ->check(Integer(1, std::int64_t{1} << 40));
  command
      ->add_option("--seconds", options.seconds,
                   "No request of a level begins after so many seconds")
      ->type_name("S")
      ->check(NumberAbove(0, kLongestSeconds));
  command
      ->add_option("--warmup", options.n_warmup,
                   "Requests before the first level, which do not count (default: 1)")
      ->type_name("N")
      ->check(Integer(0, 1'000'000));
}

void AddPrompts(CLI::App* command, BenchServeCommand& options) {
  command->option_defaults()->group(kPromptGroup);
  command
      ->add_option("--input-tokens", options.input_tokens,
                   "Tokens of a prompt: N, uniform:LOW:HIGH or lognormal:MEAN:SIGMA (default: 512)")
      ->type_name("LENGTH")
      ->check(ReadBy(load::ParseLength));
  command
      ->add_option("--output-tokens", options.output_tokens,
                   "Tokens of an answer, likewise (default: 128); end tokens are ignored")
      ->type_name("LENGTH")
      ->check(ReadBy(load::ParseLength));
  command
      ->add_option("--shared-prefix", options.shared_prefix,
                   "Tokens before those of --input-tokens, common to a group (default: 0)")
      ->type_name("N")
      ->check(Integer(0, load::kMaxTokens));
  command
      ->add_option("--groups", options.n_groups,
                   "Groups, each with a prefix of its own (default: 1)")
      ->type_name("G")
      ->check(Integer(1, 1'000'000));
  command
      ->add_option("--turns", options.n_turns,
                   "Requests of a conversation, each behind all before it (default: 1)")
      ->type_name("N")
      ->check(Integer(1, 1000));
  command
      ->add_option("--vocab", options.vocab_size,
                   "Token ids are drawn below it; that of the model spreads experts as text does "
                   "(default: 1024)")
      ->type_name("V")
      ->check(Integer(load::kFirstToken + 1, 1 << 24));
  command->add_option("--temperature", options.temperature, "(default: the server's)")
      ->type_name("T")
      ->check(Number(0, 2));
  command
      ->add_option("--seed", options.seed,
                   "Same seed, same prompts and arrivals (default: 0); another one keeps the cache "
                   "of the server from knowing them")
      ->type_name("N")
      ->check(Seed());
}

void AddReport(CLI::App* command, BenchServeCommand& options) {
  command->option_defaults()->group(kReportGroup);
  command
      ->add_option("--goodput", options.objectives,
                   "Also count the requests that keep all of these: ttft:MS tpot:MS e2e:MS")
      ->type_name("TIME:MS")
      ->check(ReadBy([](const std::string& text) {
        load::Objectives ignored;
        return load::AddObjective(text, &ignored);
      }));
  command
      ->add_option_function<std::string>(
          "--format",
          [&options](const std::string& name) {
            options.format = name == "json"  ? BenchFormat::kJson
                             : name == "csv" ? BenchFormat::kCsv
                                             : BenchFormat::kTable;
          },
          "table, json or csv (default: table)")
      ->type_name("NAME")
      ->check(OneOf({"table", "json", "csv"}));
  command
      ->add_option("--plot", options.plot, "Also draw throughput and latency of the levels, as SVG")
      ->type_name("FILE");
}

}  // namespace

void AddBenchServe(CLI::App& bench, BenchServeCommand& options) {
  CLI::App* command = bench.add_subcommand("serve", "Measure a running server under load, by HTTP");
  for (CLI::Option* option : bench.get_options()) {
    command->excludes(option);
  }
  AddTarget(command, options);
  AddLoad(command, options);
  AddPrompts(command, options);
  AddReport(command, options);
  command->footer(
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
