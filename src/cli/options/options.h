// The command line as values. No other code reads arguments or environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/common/generation_fields.h"
#include "cli/terminal/log.h"
#include "engine/request.h"
#include "http/http.h"
#include "measure/bench/runner.h"
#include "measure/load/load_plan.h"
#include "measure/load/load_report.h"
#include "measure/load/load_target.h"
#include "measure/plan/planner.h"
#include "measure/slice/shapes.h"
#include "planning/options.h"
#include "server/service.h"

namespace fathom::cli {

// The given options; generation_config.json decides the numeric fields that are not given.
struct SamplingOptions : SamplingParameters {
  std::map<std::string_view, double> fields;  // by name of SamplingFields; only given fields
};

// Options of every command that runs an engine.
struct EngineCommand {
  RunOptions run;
  ServingOptions engine;
  SamplingOptions sampling;  // batch and serve: defaults for requests
};

// The form of answers; at most one of the options is given.
struct FormOptions {
  std::optional<std::string> schema;   // a file, or "-" for standard input
  std::optional<std::string> regex;    // the expression
  std::optional<std::string> grammar;  // a file, or "-" for standard input
};

struct GenerateCommand : EngineCommand {
  static constexpr const char* kName = "generate";
  std::string prompt;   // "-": standard input
  bool no_bos = false;  // leave out the begin token where the text has none
  bool json = false;
  FormOptions form;
};

// --think and --thinking: whether the model reasons before it answers, and how hard.
enum class Think { kOff, kHigh, kMax };
inline constexpr std::string_view kThinkNames[] = {"off", "high", "max"};

struct ChatCommand : EngineCommand {
  static constexpr const char* kName = "chat";
  std::string system;
  std::string default_effort = "high";  // of chats that do not choose: as the hosted API
  std::optional<Think> think;  // missing: the checkpoint's default (GenerationConfig::thinks)
  std::string profile;         // chat format; empty: as the model's directory says
  FormOptions form;
  bool use_style = true;          // dim the reasoning on a terminal
  std::filesystem::path history;  // file of the messages typed at a terminal; empty: none
};

// Options of every command that answers requests of the APIs.
struct ApiCommand : EngineCommand {
  // The default for thinking in chats; missing: the checkpoint's default
  // (GenerationConfig::thinks).
  std::optional<bool> thinking;
  RequestDefaults defaults;  // without sampling and thinking
  std::string profile;       // chat format; empty: as the model's directory says
  std::optional<std::int64_t> constraint_memory;  // bytes; missing: DefaultConstraintMemory
};
inline constexpr std::string_view kToolGrammarNames[] = {"auto", "strict", "off"};
inline constexpr std::string_view kMediaPolicyNames[] = {"earlier", "all", "refuse"};

struct BatchCommand : ApiCommand {
  static constexpr const char* kName = "batch";
  BatchCommand() { engine.max_sequences = 8; }

  std::string input;   // "-": standard input
  std::string output;  // "-": standard output
  FormOptions form;    // the form for requests that name none
};

// Selects what the log says about each request.
enum class RequestLog { kOff, kMeta, kFull };
inline constexpr std::string_view kRequestLogNames[] = {"off", "meta", "full"};

// Selects the earlier answers that are replayed token by token: none, answers named by ids of
// calls, all.
enum class ExactReplay { kOff, kOn, kAll };
inline constexpr std::string_view kExactReplayNames[] = {"off", "on", "all"};

struct ServeCommand : ApiCommand {
  static constexpr const char* kName = "serve";
  ServeCommand() { engine.max_sequences = 32; }

  HttpServerOptions http;
  ServiceOptions service;
  std::vector<std::string> names;        // of the model; empty: the name of its directory
  std::filesystem::path api_key_file;    // one key a line; empty: none
  std::filesystem::path admin_key_file;  // like api_key_file
  std::vector<std::filesystem::path> config_files_with_keys;  // files of --config with a key inside
  std::optional<bool> isolate_keys;                           // missing: if there are several keys
  bool recipes = false;          // print the settings of client programs at start
  std::int64_t max_choices = 8;  // the most choices of a request
  double request_timeout = 0;    // seconds; 0: none
  double drain_timeout = 30;     // seconds
  RequestLog log_requests = RequestLog::kMeta;
  ExactReplay exact_replay = ExactReplay::kOn;
  std::int64_t exact_replay_bytes = std::int64_t{64} << 20;
};

// Lists the processors and the GPUs.
struct DevicesCommand {
  static constexpr const char* kName = "devices";
};

struct InspectCommand {
  static constexpr const char* kName = "inspect";
  std::filesystem::path model;
  // Free bytes of a device, to plan as loading would, and the processor for the experts that do not
  // fit; missing: no plan.
  std::optional<std::int64_t> device_memory;
  HostExpertChoice experts = HostExpertChoice::kAuto;
  // Bytes of a host's memory, to plan as loading would, and its expected speeds; missing: no plan.
  std::optional<std::int64_t> memory;
  HostSpeeds speeds;
  // The number of ranks, with `memory` bytes each, and how they divide the model; missing: one
  // process.
  std::optional<int> n_ranks;
  RankOptions ranks;
  bool json = false;
  // Also read the scales of the routed experts, which other commands read at the first use of an
  // expert.
  bool deep = false;
};

struct TokenizeCommand {
  static constexpr const char* kName = "tokenize";
  std::filesystem::path model;
  std::string text;                   // "-": standard input
  std::optional<std::string> decode;  // ids or a file of ids to turn into text instead
  bool ids_only = false;
  bool plain_text = false;  // special tokens are text like any other
};

struct ConstrainCommand {
  static constexpr const char* kName = "constrain";
  std::filesystem::path model;
  std::string schema;  // a file; one of schema, regex, grammar and bench
  std::string regex;
  std::string grammar;  // a file
  std::string bench;    // a directory of schemas with tests
  std::string test;     // a file of texts, one on each line
  bool check = false;   // only compile
  bool strict = false;
  bool json = false;
};

struct EncodeCommand {
  static constexpr const char* kName = "encode";
  std::filesystem::path model;
  std::string messages;  // a file; "-": standard input
  std::string tools;     // a file, or empty
  std::string effort;    // empty: none given
  std::string profile;   // empty: the format that the model's directory names
  bool ids = false;
  bool thinking = true;
  bool no_bos = false;
  bool keep_reasoning = false;     // keep the reasoning of earlier turns
  bool native_developer = false;   // the role "developer" as in the official encoder
  bool trust_client_text = false;  // special tokens written inside messages are tokens
};

struct ParseCommand {
  static constexpr const char* kName = "parse";
  std::string answer;      // a file; "-": standard input
  std::string tools;       // a file, or empty: the tools are unknown
  bool thinking = false;   // the answer begins inside the reasoning
  bool strict = false;     // read the answer like the official parser
  bool truncated = false;  // the answer ended because there was no room for more
};

struct LogitsCommand {
  static constexpr const char* kName = "logits";
  RunOptions run;
  std::string tokens;  // ids or a file of ids
  std::optional<std::int64_t> n_prefill;
  std::optional<std::int64_t> chunk;
  bool mtp = false;
  std::filesystem::path out;          // empty: no logits are written
  std::string draft_at;               // positions; empty: no drafts
  std::filesystem::path draft_trace;  // with draft_at
};

// A checkpoint of random weights in the shapes of Flash or Pro.
struct MakeSliceCommand {
  static constexpr const char* kName = "make-slice";
  bool pro = false;
  SliceSizes sizes{.vocab_size = 1024};
  std::uint64_t seed = 0;
  int n_threads = 1;  // >= 1
  std::filesystem::path out;
};

// The output format of bench.
enum class BenchFormat { kTable, kJson, kCsv };
inline constexpr std::string_view kBenchFormatNames[] = {"table", "json", "csv"};

struct BenchCommand {
  static constexpr const char* kName = "bench";
  RunOptions run;
  bench::Plan plan{.n_repetitions = 5, .chunk = 512};  // without rows: the default rows
  std::int64_t bandwidth_mib = 1024;  // memory for the measurement of the read bandwidth
  bool profile = false;               // profile each row by operation
  std::filesystem::path trace;        // trace of the profile; empty: none
  bool json = false;
  bool csv = false;
  std::filesystem::path plot;  // empty: none
};

// A load for a server: `bench serve`.
struct BenchServeCommand {
  static constexpr const char* kName = "bench serve";
  std::string url = "http://127.0.0.1:8000";
  load::LoadTarget target;             // without url; model: empty: the first that it names
  std::filesystem::path api_key_file;  // empty: none
  std::vector<int> concurrency;        // one level each; empty: see `rates`
  std::vector<double> rates;           // conversations per second; both empty: concurrency 1
  load::Arrival arrival;
  std::optional<std::int64_t> n_requests;  // requests of a level; missing: see `seconds`
  std::optional<double> seconds;           // time of a level; both missing: 100 requests
  std::int64_t n_warmup = 1;               // requests before the first level
  load::WorkloadOptions workload;
  load::Objectives objectives;
  double request_timeout = 600;  // seconds
  BenchFormat format = BenchFormat::kTable;
  std::filesystem::path plot;  // empty: none
};

// The options of plan.
struct PlanCommand {
  static constexpr const char* kName = "plan";
  std::filesystem::path hardware;      // empty: plan a host with `memory`
  std::optional<std::int64_t> memory;  // bytes
  std::optional<int> n_ranks;          // ranks with `memory` bytes each; missing: no ranks
  RankOptions ranks;                   // without the options for experts and rows, see below
  HostSpeeds speeds;
  std::filesystem::path model;
  std::string shape;  // "flash", "pro"; empty: see `model`
  std::optional<std::int64_t> n_context;
  std::optional<std::int64_t> n_prompt;
  std::optional<std::int64_t> chunk;  // missing: the default of a run
  // Without context, prompt and chunk, see above.
  plan::Workload workload{.experts = {.exchange = ExpertPath::kFused, .n_redundant = {}}};
  double zipf = 0;
  std::filesystem::path expert_trace;  // empty: loads by `zipf`
  bool json = false;
  std::int64_t n_rows = 16;
};

// Starts ranks of another command on this machine.
struct LaunchCommand {
  static constexpr const char* kName = "launch";
  int n_ranks = 2;
  std::vector<std::string> arguments;  // the command and its arguments
};

// All commands, in the order of --help.
template <template <class...> class List>
using CommandsIn =
    List<GenerateCommand, ChatCommand, ServeCommand, BatchCommand, DevicesCommand, InspectCommand,
         TokenizeCommand, EncodeCommand, ConstrainCommand, ParseCommand, LogitsCommand,
         LaunchCommand, PlanCommand, MakeSliceCommand, BenchCommand, BenchServeCommand>;

struct Options {
  LogLevel log_level = LogLevel::kWarn;
  LogFormat log_format = LogFormat::kText;
  std::string rank_link;             // see RankOptions::link
  std::vector<std::string> dropped;  // options of other servers that have no meaning here
  CommandsIn<std::variant> command;
};

// The options, or the text to print before the program ends with exit_code: help and version (0, to
// standard output), wrong usage (2, to standard error).
struct CommandLine {
  std::optional<Options> options;
  std::string out;
  std::string error;
  int exit_code = 0;
};

CommandLine ParseCommandLine(int argc, char** argv);

}  // namespace fathom::cli
