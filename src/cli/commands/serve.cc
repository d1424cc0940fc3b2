#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "api/common/request_runner.h"
#include "base/line_reader.h"
#include "base/pages.h"
#include "base/parse_text.h"
#include "base/signal_mask.h"
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/output.h"
#include "cli/terminal/serve_log.h"
#include "http/http.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "runtime/build_info.h"
#include "runtime/model_files.h"
#include "runtime/runtime.h"
#include "server/client_models.h"
#include "server/service.h"

namespace fathom::cli {
namespace {

using std::chrono::milliseconds;

// A models file without instructions leaves Codex without any, because it replaces Codex' own.
constexpr std::string_view kCodexInstructions =
    "You are a coding agent in the terminal of the user, and work in the folder that the "
    "environment names. Go on until the task is done: read the files that matter, change them by "
    "commands, and run what shows that the change works. Follow every AGENTS.md. Make small "
    "changes in the style of the code, and leave changes that are not yours alone. Ask before you "
    "delete or publish anything. End with a short account of what you did and what you could not "
    "check.";

// docs/serve.md, "With agents and other programs", has this text with the numbers of an example.
constexpr std::string_view kRecipes = R"(# Claude Code
ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} \
ANTHROPIC_MODEL={model} ANTHROPIC_SMALL_FAST_MODEL={model} \
CLAUDE_CODE_MAX_CONTEXT_TOKENS={context} \
claude --permission-mode default --disallowedTools WebSearch

# Codex: ~/.codex/fathom.json
{{"models": [{{"slug": "{model}", "display_name": "{model}", "description": "Fathom",
  "context_window": {context}, "input_modalities": ["text"], "shell_type": "default",
  "supports_parallel_tool_calls": true, "experimental_supported_tools": [],
  "supports_reasoning_summaries": true, "supported_reasoning_levels": [
    {{"effort": "none", "description": "no reasoning"}}, {{"effort": "low", "description": "short"}},
    {{"effort": "high", "description": "long"}}, {{"effort": "max", "description": "longest"}}],
  "support_verbosity": false, "truncation_policy": {{"mode": "tokens", "limit": 10000}},
  "visibility": "list", "supported_in_api": true, "priority": 1,
  "base_instructions": "{instructions}"}}]}}

# Codex: ~/.codex/config.toml
model = "{model}"
model_provider = "fathom"
model_catalog_json = "fathom.json"
model_context_window = {context}

[model_providers.fathom]
name = "Fathom"
base_url = "{url}/v1"
wire_api = "responses"{codex_key}

# Open WebUI
OPENAI_API_BASE_URL={url}/v1 OPENAI_API_KEY={key} ENABLE_OLLAMA_API=false open-webui serve

# aider
OPENAI_API_BASE={url}/v1 OPENAI_API_KEY={key} aider --model openai/{model}

# LiteLLM
litellm --model hosted_vllm/{model} --api_base {url}/v1

# llm: extra-openai-models.yaml in the folder of llm logs path
- model_id: {model}
  model_name: {model}
  api_base: {url}/v1
  supports_tools: true
  supports_schema: true

# LangChain
ChatOpenAI(model="{model}", base_url="{url}/v1", api_key="{key}")

# opencode: opencode.json
{{"provider": {{"fathom": {{"npm": "@ai-sdk/openai-compatible",
  "options": {{"baseURL": "{url}/v1", "apiKey": "{key}"}},
  "models": {{"{model}": {{"limit": {{"context": {context}, "output": {output}}}}}}}}}}}}}

# Continue: ~/.continue/config.yaml
models:
  - {{name: Fathom, provider: openai, model: {model}, apiBase: "{url}/v1", apiKey: {key},
     defaultCompletionOptions: {{contextLength: {context}}}}}

# Cline, Roo Code: provider "OpenAI Compatible"
base URL {url}/v1, API key {key}, model ID {model}, context window {context}
)";

// Ends a program at the second signal to stop, whatever its threads do. Watch starts a thread that
// waits. The process then ends without destructors, with exit code 0, as after the first signal.
class ForcedEnd {
 public:
  using Clock = std::chrono::steady_clock;

  // Both must outlive this object.
  ForcedEnd(Interrupt& interrupt, Log& log) : interrupt_(interrupt), log_(log) {}

  // Watches for a signal: no other thread may take it from now on. Gives running work kGrace to end
  // by itself.
  void Watch() {
    const SignalsBlocked blocked;
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  // Returns whether that signal has arrived. Any thread.
  bool has_signal() const { return has_signal_; }
  // Ends the process after `time` at the latest. Any thread.
  void EndWithin(std::chrono::milliseconds time) {
    const Clock::time_point end = Clock::now() + time;
    Clock::time_point known = end_;
    while (end < known && !end_.compare_exchange_weak(known, end)) {
    }
  }

  static constexpr std::chrono::milliseconds kGrace{300};

 private:
  void Run(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kWatchTurn(20);
    while (!stop.stop_requested()) {
      if (interrupt_.Take()) {
        has_signal_ = true;
        EndWithin(kGrace);
      }
      if (Clock::now() >= end_.load()) {
        log_.Warn("stopped without waiting for requests that do not end");
        std::_Exit(EXIT_SUCCESS);
      }
      std::this_thread::sleep_for(kWatchTurn);
    }
  }

  Interrupt& interrupt_;
  Log& log_;
  std::atomic<bool> has_signal_ = false;
  std::atomic<Clock::time_point> end_ = Clock::time_point::max();
  std::jthread thread_;
};

constexpr auto kWatch = milliseconds(50);
// After everything has been cancelled, the time in which clients receive their last events.
constexpr auto kLastWords = std::chrono::seconds(5);

milliseconds Milliseconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

// Reads the keys from the command line and the file; `option`: "--api-key" for --api-key-file.
Result<std::vector<std::string>> ReadKeys(std::string_view option, std::vector<std::string> keys,
                                          const std::filesystem::path& file) {
  if (!file.empty()) {
    const Result<std::string> text = ReadInput(file.string(), kMostSettingsBytes);
    if (!text) return MakeError(text.error().code, "{}-file: {}", option, text.error().message);
    LineReader lines(*text);
    for (std::string_view line; lines.Next(&line);) {
      const std::string_view key = WithoutBlankEnds(line);
      if (!key.empty()) keys.emplace_back(key);
    }
    if (keys.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "{}-file: {}: expected a key, found none",
                       option, file.string());
    }
  }
  if (std::any_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); })) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: expected a key, found an empty one", option);
  }
  return keys;
}

// Returns the model's positions, limited so that one sequence needs at most a quarter of the
// available memory.
Result<std::int64_t> ServeContext(const ServeCommand& command, const ModelConfig& config) {
  constexpr std::int64_t kFewest = 8192;
  const std::optional<std::int64_t> available =
      command.run.memory ? command.run.memory : AvailableMemory();
  std::int64_t n_context = config.max_position_embeddings;
  const std::int64_t n_batch = command.engine.max_batch_tokens.value_or(kDefaultBatchTokens);
  const auto full_bytes = [&](std::int64_t n) {
    return SequenceCache::FullBytes(MakeCacheShape(
        config, {.max_sequences = 1, .max_context = n, .max_batch_tokens = std::min(n_batch, n)}));
  };
  while (available && n_context > kFewest && full_bytes(n_context) > *available / 4) {
    n_context /= 2;
  }
  return ContextLength(command.run, n_context, config);
}

// Adds the keys of the files to the keys of the command line.
Result<AccessOptions> MakeAccessOptions(const ServeCommand& command) {
  AccessOptions access = command.service.access;
  Result<std::vector<std::string>> api_keys =
      ReadKeys("--api-key", std::move(access.api_keys), command.api_key_file);
  if (!api_keys) return Unexpected(api_keys.error());
  access.api_keys = *std::move(api_keys);
  Result<std::vector<std::string>> admin_keys =
      ReadKeys("--admin-key", std::move(access.admin_keys), command.admin_key_file);
  if (!admin_keys) return Unexpected(admin_keys.error());
  access.admin_keys = *std::move(admin_keys);
  return access;
}

// Warns if other users can read the file: then its keys are not secret. `option`: names the file.
void WarnOfReaders(std::string_view option, const std::filesystem::path& file, Log& log) {
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  if (file.empty() || failed || !std::filesystem::is_regular_file(status)) return;
  if ((status.permissions() & std::filesystem::perms::others_read) !=
      std::filesystem::perms::none) {
    log.Warn("{}: all users of this machine can read {}, where keys are; chmod 600 ends that",
             option, file.string());
  }
}

ServiceOptions MakeServiceOptions(const ServeCommand& command, AccessOptions access,
                                  ServeLog& log) {
  ServiceOptions options = command.service;
  options.access = std::move(access);
  options.log_content = command.log_requests == RequestLog::kFull;
  options.version = GetBuildInfo().version;
  options.generation.random_bits = SystemRandomBits();
  if (command.request_timeout > 0) {
    options.generation.time_limit = Milliseconds(command.request_timeout);
  }
  if (command.log_requests != RequestLog::kOff) {
    options.record = [&log](const ServedRequest& record) { log.Add(record); };
  }
  return options;
}

Result<std::unique_ptr<HttpServer>> Listen(const ServeCommand& command, Service& service) {
  HttpServerOptions options = command.http;
  options.limits.all_body_bytes =
      std::max(options.limits.all_body_bytes, 2 * options.limits.body_bytes);
  return service.Listen(std::move(options));
}

ClientMemory MemoryOfClients(const ServeCommand& command) {
  const bool replays = command.exact_replay != ExactReplay::kOff;
  return {.replay_scope =
              command.exact_replay == ExactReplay::kAll ? ReplayScope::kAll : ReplayScope::kNamed,
          .replay_bytes = replays ? static_cast<std::size_t>(command.exact_replay_bytes) : 0};
}

// Returns the server's address as programs on this machine call it.
std::string LocalUrl(const std::string& host, int port) {
  const bool is_any = host == "0.0.0.0" || host == "::";
  const bool is_ipv6 = !is_any && host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", is_ipv6 ? "[" : "", is_any ? "127.0.0.1" : host,
                     is_ipv6 ? "]" : "", port);
}

// Returns the settings of client programs for this server, each with a heading line "# PROGRAM". If
// clients need a key, they contain KEY instead of it.
std::string Recipes(const std::string& url, const std::string& model, std::int64_t n_context,
                    bool has_keys) {
  using fmt::arg;
  constexpr std::int64_t kOutputShare = 4;  // context / this: the limit where programs need one
  return fmt::format(kRecipes, arg("url", url), arg("model", model),
                     arg("key", has_keys ? "KEY" : "none"),
                     arg("codex_key", has_keys ? "\nenv_key = \"FATHOM_API_KEY\"" : ""),
                     arg("instructions", kCodexInstructions), arg("context", n_context),
                     arg("output", n_context / kOutputShare));
}

// Waits for a signal, or for an error after which this process or one of several ranks cannot
// continue.
Status WaitForEnd(Interrupt& interrupt, const RankProcess& ranks) {
  Status fine = ranks.Check();
  while (fine && !interrupt.Take()) {
    std::this_thread::sleep_for(kWatch);
    fine = ranks.Check();
  }
  return fine;
}

// Lets running requests finish; a second signal or the time limit cancels them. Then closes
// everything, without waiting for handlers that do not end even now.
void ShutDown(const ServeCommand& command, Service& service, HttpServer& server, Engine& engine,
              ForcedEnd& forced_end, Log& log) {
  forced_end.Watch();
  service.Drain();
  server.Drain();
  const HttpCounts counts = server.counts();
  log.Info("stopping: {} requests are being answered, for at most {} s", counts.handling,
           command.drain_timeout);
  const auto deadline = std::chrono::steady_clock::now() + Milliseconds(command.drain_timeout);
  bool is_done = server.WaitFor(milliseconds(0));
  while (!is_done && std::chrono::steady_clock::now() < deadline && !forced_end.has_signal()) {
    is_done = server.WaitFor(kWatch);
  }
  if (!is_done) {
    log.Warn("stopping: {} answers are cut short", server.counts().handling);
  }
  engine.Shutdown(ShutdownMode::kStop);
  if (!server.WaitFor(kLastWords)) forced_end.EndWithin(kLastWords);
  server.Stop();
}

}  // namespace

Status RunCommand(const ServeCommand& command, RankProcess& ranks, Log& log) {
  Result<AccessOptions> access = MakeAccessOptions(command);
  if (!access) return Unexpected(access.error());
  WarnOfReaders("--api-key-file", command.api_key_file, log);
  WarnOfReaders("--admin-key-file", command.admin_key_file, log);
  for (const auto& file : command.config_files_with_keys) WarnOfReaders("--config", file, log);
  const Result<ModelFiles> files = ModelFiles::Read(command.run.model);
  if (!files) return Unexpected(files.error());
  const Result<std::int64_t> n_context = ServeContext(command, files->config);
  if (!n_context) return Unexpected(n_context.error());
  Result<ApiModel> api = MakeApiModel(command, *n_context, command.max_choices, *files, log);
  if (!api) return Unexpected(api.error());
  if (command.defaults.like_hosted) api->defaults.messages_think = true;
  const std::string directory_name = api->name;
  const std::vector<std::string> names =
      command.names.empty() ? std::vector{directory_name} : command.names;
  api->name = names.front();
  const bool isolates = command.isolate_keys.value_or(access->api_keys.size() > 1);
  const ClientModels models(
      *api,
      isolates ? std::span<const std::string>(access->api_keys) : std::span<const std::string>(),
      MemoryOfClients(command), SystemRandomBits());

  Interrupt interrupt(Interrupt::Signals::kInterruptAndTerminate);
  ForcedEnd forced_end(interrupt, log);
  const bool has_keys = !access->api_keys.empty();
  ServeLog serve_log(log, command.log_requests == RequestLog::kFull);
  Service service(MakeServiceOptions(command, *std::move(access), serve_log));
  // Listens before the model loads, which may take minutes: /health reports the progress.
  const Result<std::unique_ptr<HttpServer>> server = Listen(command, service);
  if (!server) return Unexpected(server.error());
  if (!has_keys && !(*server)->is_loopback()) {
    log.Warn("everyone who can reach {}:{} may use this server; --api-key-file asks for a key",
             command.http.host, (*server)->port());
  }
  service.SetHttpCounts([&server] { return (*server)->counts(); });
  LoadDisplay display(files->directory, log, &interrupt,
                      [&service](double share) { service.SetLoadProgress(share); });
  RuntimeOptions options = {
      .run = command.run, .serving = command.engine, .ranks = &ranks, .events = display.events()};
  options.run.n_context = *n_context;
  if (ranks.is_alone()) options.run.memory_beside = api->constraint_memory().limit;
  const Result<std::unique_ptr<Runtime>> runtime = Runtime::Load(*files, options);
  if (!runtime) return Unexpected(runtime.error());
  Engine& engine = (*runtime)->engine();
  EngineRunner runner(engine);
  service.SetModel({.api = models.models().front(),
                    .api_of_key = isolates ? models.models() : std::vector<const ApiModel*>(),
                    .runner = &runner,
                    .metrics = &engine.metrics(),
                    .clear_prefix_cache = [&engine] { engine.ClearPrefixCache(); },
                    .root = directory_name,
                    .names = names,
                    .description = files->generation.description,
                    .created = static_cast<std::int64_t>(std::time(nullptr)),
                    .max_sequences = command.engine.max_sequences});
  log.Info("serving {} at http://{}:{} (context {}, {} answers at once, loaded in {:.2f} s)",
           fmt::join(names, ", "), command.http.host, (*server)->port(), *n_context,
           command.engine.max_sequences, (*runtime)->load_seconds());

  if (!files->generation.description.empty()) log.Info("{}", files->generation.description);
  if (command.recipes) {
    const Status printed = Print(Recipes(LocalUrl(command.http.host, (*server)->port()),
                                         names.front(), *n_context, has_keys));
    if (!printed) return printed;
  }

  Status end = WaitForEnd(interrupt, ranks);
  ShutDown(command, service, **server, engine, forced_end, log);
  log.Info("stopped");
  return end;
}

}  // namespace fathom::cli
