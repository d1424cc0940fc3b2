#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
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
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/recipes.h"
#include "cli/terminal/forced_end.h"
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

Result<AccessOptions> MakeAccessOptions(const ServeCommand& command) {
  Result<std::vector<std::string>> api_keys =
      ReadKeys("--api-key", command.api_keys, command.api_key_file);
  if (!api_keys) return Unexpected(api_keys.error());
  Result<std::vector<std::string>> admin_keys =
      ReadKeys("--admin-key", command.admin_keys, command.admin_key_file);
  if (!admin_keys) return Unexpected(admin_keys.error());
  return AccessOptions{.api_keys = *std::move(api_keys),
                       .admin_keys = *std::move(admin_keys),
                       .cors_origins = command.cors_origins,
                       .allowed_hosts = command.allowed_hosts};
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
  ServiceOptions options = {
      .access = std::move(access),
      .protect_metrics = command.protect_metrics,
      .strict_model_names = command.strict_model_names,
      .log_content = command.log_requests == RequestLog::kFull,
      .version = std::string(GetBuildInfo().version),
      .generation = {.random_bits = SystemRandomBits()},
  };
  if (command.request_timeout > 0) {
    options.generation.time_limit = Milliseconds(command.request_timeout);
  }
  if (command.log_requests != RequestLog::kOff) {
    options.record = [&log](const ServedRequest& record) { log.Add(record); };
  }
  return options;
}

Result<std::unique_ptr<HttpServer>> Listen(const ServeCommand& command, Service& service) {
  HttpServerOptions options = {.host = command.host, .port = command.port};
  options.limits.body_bytes = static_cast<std::size_t>(command.max_request_bytes);
  options.limits.all_body_bytes =
      std::max(options.limits.all_body_bytes, 2 * options.limits.body_bytes);
  options.limits.connections = static_cast<std::size_t>(command.max_connections);
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
  api->defaults.like_hosted = command.like_hosted;
  if (command.like_hosted) api->defaults.messages_think = true;
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
             command.host, (*server)->port());
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
           fmt::join(names, ", "), command.host, (*server)->port(), *n_context,
           command.engine.max_sequences, (*runtime)->load_seconds());

  if (!files->generation.description.empty()) log.Info("{}", files->generation.description);
  if (command.recipes) {
    const Status printed = Print(Recipes({.url = LocalUrl(command.host, (*server)->port()),
                                          .model = names.front(),
                                          .n_context = *n_context,
                                          .has_keys = has_keys}));
    if (!printed) return printed;
  }

  Status end = WaitForEnd(interrupt, ranks);
  ShutDown(command, service, **server, engine, forced_end, log);
  log.Info("stopped");
  return end;
}

}  // namespace fathom::cli
