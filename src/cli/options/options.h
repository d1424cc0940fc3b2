// The command line as values. No other code reads arguments or environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/common/answer_constraint.h"
#include "base/tensor.h"
#include "chat/media_parts.h"
#include "cli/terminal/log.h"
#include "planning/options.h"

namespace fathom {
struct DrafterKind;
}

namespace fathom::cli {

// The given options; generation_config.json decides all others.
struct SamplingOptions {
  std::map<std::string_view, double> fields;  // by name of SamplingFields; only given fields
  std::vector<std::pair<Token, float>> logit_bias;
  std::vector<std::string> stop_strings;
  std::vector<Token> stop_tokens;
  std::optional<std::int64_t> max_tokens;  // >= 0
  std::int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::optional<int> n_logprobs;  // best tokens reported beside the chosen one
  std::optional<std::uint64_t> seed;
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
  std::string prompt;   // "-": standard input
  bool no_bos = false;  // leave out the begin token where the text has none
  bool json = false;
  FormOptions form;
};

// --think and --thinking: whether the model reasons before it answers, and how hard.
enum class Think { kOff, kHigh, kMax };
inline constexpr std::string_view kThinkNames[] = {"off", "high", "max"};

// The effort of chats that do not choose: that of the hosted API.
inline constexpr std::string_view kDefaultEffort = "high";

struct ChatCommand : EngineCommand {
  std::string system;
  std::string default_effort{kDefaultEffort};
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
  std::string default_effort{kDefaultEffort};
  std::string profile;  // chat format; empty: as the model's directory says
  ToolGrammar tool_grammar = ToolGrammar::kAuto;
  std::optional<std::int64_t> constraint_memory;  // bytes; missing: DefaultConstraintMemory
  bool openai_strict_rules = false;               // refuse strict schemas that OpenAI refuses
  MediaPolicy media = MediaPolicy::kEarlier;      // images and other parts that are not text
};
inline constexpr std::string_view kToolGrammarNames[] = {"auto", "strict", "off"};
inline constexpr std::string_view kMediaPolicyNames[] = {"earlier", "all", "refuse"};

struct BatchCommand : ApiCommand {
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
  ServeCommand() { engine.max_sequences = 32; }

  std::string host = "127.0.0.1";
  int port = 8000;                  // 0: any free port
  std::vector<std::string> names;   // names of the model; empty: the name of its directory
  bool strict_model_names = false;  // requests for other names are refused
  bool like_hosted = false;         // lengths and sampling like the hosted API
  std::vector<std::string> api_keys;
  std::filesystem::path api_key_file;  // one key a line; empty: none
  std::vector<std::string> admin_keys;
  std::filesystem::path admin_key_file;                       // like api_key_file
  std::vector<std::filesystem::path> config_files_with_keys;  // files of --config with a key inside
  std::optional<bool> isolate_keys;                           // missing: if there are several keys
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
  bool protect_metrics = false;
  bool recipes = false;  // print the settings of client programs at start
  std::int64_t max_request_bytes = std::int64_t{64} << 20;
  std::int64_t max_connections = 4096;
  std::int64_t max_choices = 8;  // the most choices of a request
  double request_timeout = 0;    // seconds; 0: none
  double drain_timeout = 30;     // seconds
  RequestLog log_requests = RequestLog::kMeta;
  ExactReplay exact_replay = ExactReplay::kOn;
  std::int64_t exact_replay_bytes = std::int64_t{64} << 20;
};

// Lists the processors and the GPUs.
struct DevicesCommand {};

struct InspectCommand {
  std::filesystem::path model;
  std::optional<std::int64_t> device_memory;  // bytes for which to plan; missing: no plan
  HostExpertChoice experts = HostExpertChoice::kAuto;
  std::optional<std::int64_t> memory;  // bytes of a host for which to plan; missing: no plan
  std::optional<int> n_ranks;          // ranks with `memory` bytes each; missing: no ranks
  RankOptions ranks;
  HostSpeeds speeds;
  bool json = false;
  bool deep = false;
};

struct TokenizeCommand {
  std::filesystem::path model;
  std::string text;                   // "-": standard input
  std::optional<std::string> decode;  // ids or a file of ids to turn into text instead
  bool ids_only = false;
  bool plain_text = false;  // special tokens are text like any other
};

struct ConstrainCommand {
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
  std::string answer;      // a file; "-": standard input
  std::string tools;       // a file, or empty: the tools are unknown
  bool thinking = false;   // the answer begins inside the reasoning
  bool strict = false;     // read the answer like the official parser
  bool truncated = false;  // the answer ended because there was no room for more
};

struct LogitsCommand {
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
  bool pro = false;
  std::vector<int> ratios;                // ratio of each layer
  std::optional<std::int64_t> n_experts;  // missing: the published number
  std::int64_t vocab_size = 1024;
  std::int64_t n_hash_layers = 0;
  const DrafterKind* draft = nullptr;  // null: none
  std::uint64_t seed = 0;
  int n_threads = 1;  // >= 1
  std::filesystem::path out;
};

// The output format of bench.
enum class BenchFormat { kTable, kJson, kCsv };
inline constexpr std::string_view kBenchFormatNames[] = {"table", "json", "csv"};

struct BenchCommand {
  RunOptions run;
  std::string rows;  // empty: the default rows
  int n_repetitions = 5;
  std::int64_t chunk = 512;           // tokens of a prefill step
  std::int64_t bandwidth_mib = 1024;  // memory for the measurement of the read bandwidth
  bool profile = false;               // profile each row by operation
  std::filesystem::path trace;        // trace of the profile; empty: none
  bool json = false;
  bool csv = false;
  std::filesystem::path plot;  // empty: none
};

// A load for a server: `bench serve`.
struct BenchServeCommand {
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "completions";    // measure/load/load_endpoint.h
  std::string model;                       // empty: the first model that the server names
  std::string api_key;                     // empty: none
  std::filesystem::path api_key_file;      // empty: none
  std::vector<int> concurrency;            // one level each; empty: see `rates`
  std::vector<double> rates;               // conversations per second; both empty: concurrency 1
  std::string arrival = "poisson";         // poisson, constant or gamma:SHAPE
  std::optional<std::int64_t> n_requests;  // requests of a level; missing: see `seconds`
  std::optional<double> seconds;           // time of a level; both missing: 100 requests
  std::int64_t n_warmup = 1;               // requests before the first level
  std::string input_tokens = "512";        // measure/load/load_plan.h
  std::string output_tokens = "128";
  std::int64_t shared_prefix = 0;
  std::int64_t n_groups = 1;
  std::int64_t n_turns = 1;
  std::int64_t vocab_size = 1024;
  std::optional<double> temperature;
  std::uint64_t seed = 0;
  std::vector<std::string> objectives;  // measure/load/load_summary.h
  double request_timeout = 600;         // seconds
  BenchFormat format = BenchFormat::kTable;
  std::filesystem::path plot;  // empty: none
};

// The options of plan.
struct PlanCommand {
  std::filesystem::path hardware;      // empty: plan a host with `memory`
  std::optional<std::int64_t> memory;  // bytes
  std::optional<int> n_ranks;          // ranks with `memory` bytes each; missing: no ranks
  RankOptions ranks;                   // without the options for experts and rows, see below
  HostSpeeds speeds;
  std::filesystem::path model;
  std::string shape;  // "flash", "pro"; empty: see `model`
  std::optional<std::int64_t> n_context;
  std::optional<std::int64_t> n_prompt;
  std::int64_t concurrency = 1;
  std::optional<std::int64_t> chunk;  // missing: the default of a run
  std::int64_t micro_batches = 0;     // as many as there are stages
  bool decode_context_parallel = false;
  double zipf = 0;
  std::filesystem::path expert_trace;  // empty: loads by `zipf`
  std::optional<std::int64_t> n_redundant;
  bool fused = true;
  bool json = false;
  std::int64_t n_rows = 16;
};

// Starts ranks of another command on this machine.
struct LaunchCommand {
  int n_ranks = 2;
  std::vector<std::string> arguments;  // the command and its arguments
};

struct Options {
  LogLevel log_level = LogLevel::kWarn;
  LogFormat log_format = LogFormat::kText;
  std::string rank_link;             // see RankOptions::link
  std::vector<std::string> dropped;  // options of other servers that have no meaning here
  std::variant<GenerateCommand, ChatCommand, ServeCommand, BatchCommand, InspectCommand,
               TokenizeCommand, EncodeCommand, ParseCommand, LogitsCommand, MakeSliceCommand,
               BenchCommand, BenchServeCommand, LaunchCommand, PlanCommand, DevicesCommand,
               ConstrainCommand>
      command;
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
