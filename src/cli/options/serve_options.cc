#include "cli/options/serve_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/options/option_checks.h"
#include "cli/options/option_groups.h"

namespace fathom::cli {
namespace {

constexpr const char* kServerGroup = "Server";
constexpr const char* kAccessGroup = "Access";
constexpr const char* kLimitGroup = "Limits";

void AddAddress(CLI::App* command, ServeCommand& options) {
  command
      ->add_option("--host", options.host,
                   "Address to listen at; 0.0.0.0 for all (default: 127.0.0.1, this machine alone)")
      ->type_name("ADDRESS")
      ->group(kServerGroup);
  command->add_option("--port", options.port, "0: any that is free (default: 8000)")
      ->type_name("N")
      ->check(Integer(0, 65535))
      ->group(kServerGroup);
  command
      ->add_option("--served-model-name", options.names,
                   "What the model is called, separated by commas (default: its directory's name)")
      ->type_name("NAMES")
      ->delimiter(',')
      ->group(kServerGroup);
  command
      ->add_flag("--strict-model-names", options.strict_model_names,
                 "Refuse requests that name another model (default: any name will do)")
      ->group(kServerGroup);
  // For --help alone: the file has been read before this parser sees the words.
  command
      ->add_option_function<std::string>(
          "--config", [](const std::string&) {},
          "A file of options: a JSON object with their names as keys")
      ->type_name("FILE")
      ->group(kServerGroup);
}

void AddAccess(CLI::App* command, ServeCommand& options) {
  command
      ->add_option("--api-key", options.api_keys,
                   "Ask clients for this key; may be repeated (default: everybody may ask)")
      ->type_name("KEY")
      ->type_size(1)
      ->allow_extra_args(false)
      ->group(kAccessGroup);
  command
      ->add_option("--api-key-file", options.api_key_file,
                   "The same of a file with a key on each line, which other users cannot see")
      ->type_name("FILE")
      ->group(kAccessGroup);
  command
      ->add_option("--admin-key", options.admin_keys,
                   "Who has this key may list and end requests: GET /slots, POST /abort (default: "
                   "nobody may); may be repeated")
      ->type_name("KEY")
      ->type_size(1)
      ->allow_extra_args(false)
      ->group(kAccessGroup);
  command
      ->add_option("--admin-key-file", options.admin_key_file,
                   "The same of a file with a key on each line, which other users cannot see")
      ->type_name("FILE")
      ->group(kAccessGroup);
  command
      ->add_option("--cors-origins", options.cors_origins,
                   "Web sites whose pages may ask, like https://example.org, separated by commas; "
                   "*: all (default: none but our own page)")
      ->type_name("ORIGINS")
      ->delimiter(',')
      ->group(kAccessGroup);
  command
      ->add_option("--allowed-hosts", options.allowed_hosts,
                   "Names under which clients reach us besides localhost and addresses, separated "
                   "by commas; *: all. Not asked for where there are keys")
      ->type_name("NAMES")
      ->delimiter(',')
      ->group(kAccessGroup);
  command->add_flag("--protect-metrics", options.protect_metrics, "GET /metrics asks for a key too")
      ->group(kAccessGroup);
}

void AddLimits(CLI::App* command, ServeCommand& options) {
  command
      ->add_option_function<std::string>(
          "--max-request-bytes",
          [&options](const std::string& size) { options.max_request_bytes = MemorySizeOf(size); },
          "Longest body of a request (default: 64M)")
      ->type_name("SIZE")
      ->check(MemorySize())
      ->group(kLimitGroup);
  command
      ->add_option("--max-connections", options.max_connections,
                   "Connections at once (default: 4096)")
      ->type_name("N")
      ->check(Integer(1, 100000))
      ->group(kLimitGroup);
  command
      ->add_option("--max-waiting", options.engine.max_waiting,
                   "Requests that may wait for their turn; more get 429 (default: 4096)")
      ->type_name("N")
      ->check(Integer(0, 1000000))
      ->group(kLimitGroup);
  command->add_option("--max-choices", options.max_choices, "Largest n of a request (default: 8)")
      ->type_name("N")
      ->check(Integer(1, 128))
      ->group(kLimitGroup);
  command
      ->add_option("--request-timeout", options.request_timeout,
                   "Seconds an answer may take; 0: as long as it likes (default: 0)")
      ->type_name("SECONDS")
      ->check(Number(0, 1e6))
      ->group(kLimitGroup);
  command
      ->add_option("--drain-timeout", options.drain_timeout,
                   "Seconds that running answers get to finish when the server is told to stop "
                   "(default: 30)")
      ->type_name("SECONDS")
      ->check(Number(0, 1e6))
      ->group(kLimitGroup);
}

// One of `names`, which stand in the order of the enum.
template <typename Enum, std::size_t kCount>
void AddChoice(CLI::App* command, const char* option, const char* help,
               const std::string_view (&names)[kCount], Enum* chosen) {
  command
      ->add_option_function<std::string>(
          option,
          [&names, chosen](const std::string& name) {
            const auto* found = std::find(std::begin(names), std::end(names), name);
            *chosen = static_cast<Enum>(found - std::begin(names));
          },
          help)
      ->type_name("WHAT")
      ->check(OneOf({std::begin(names), std::end(names)}));
}

void AddAnswers(CLI::App* command, ServeCommand& options) {
  AddThinking(command, options.thinking);
  AddProfile(command, options.profile);
  AddChoice(command, "--log-requests",
            "What the log says of a request: off, meta or full, which is with its text (default: "
            "meta)",
            kRequestLogNames, &options.log_requests);
  AddChoice(command, "--exact-replay",
            "Which earlier answers prompts hold token by token as the model wrote them, with the "
            "reasoning their clients lost: off, on (those that ids of tool calls name and what "
            "follows them) or all, found by their text (default: on)",
            kExactReplayNames, &options.exact_replay);
  command
      ->add_option_function<std::string>(
          "--exact-replay-memory",
          [&options](const std::string& size) { options.exact_replay_bytes = MemorySizeOf(size); },
          "Memory for them; the longest unused are forgotten (default: 64M)")
      ->type_name("SIZE")
      ->check(MemorySize());
}

}  // namespace

void AddServe(CLI::App& app, ServeCommand& options) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve the OpenAI and Anthropic APIs and a chat page over HTTP");
  AddAnswers(command, options);
  AddAddress(command, options);
  AddAccess(command, options);
  AddLimits(command, options);
  AddRun(command, options.run);
  AddEngine(command, options.engine);
  AddAllSampling(command, options.sampling);
  command->footer(
      "Sampling options hold for requests that do not say otherwise. Ctrl-C or SIGTERM lets "
      "running\n"
      "answers finish; a second one ends them. docs/serve.md has the APIs.\n"
      "Examples:\n"
      "  fathom serve\n"
      "  fathom serve --model DIR --served-model-name deepseek-v4-flash --port 8080\n"
      "  fathom serve --model DIR --host 0.0.0.0 --api-key-file keys.txt --log-format json\n"
      "  fathom serve --config server.json");
}

}  // namespace fathom::cli
