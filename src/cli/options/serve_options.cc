#include "cli/options/command_options.h"
#include "cli/options/option_values.h"

namespace fathom::cli {
namespace {

void AddAnswers(Command& command, ServeCommand& options) {
  AddChats(command, options);
  command.AddFlag("--like-hosted", options.defaults.like_hosted,
                  "Chats have the lengths and the sampling of DeepSeek's hosted API: 8192 tokens "
                  "where no limit is given, 65536 with reasoning, 131072 with that of effort max; "
                  "while reasoning temperature 1 and top_p 1, or 0.95 with tools; messages reason "
                  "unless told otherwise");
  command.Add({"--log-requests", "WHAT",
               "Log of requests: off, meta or full, which includes their text (default: meta)",
               OneOf(kRequestLogNames, options.log_requests)});
  command.Add(
      {"--exact-replay", "WHAT",
       "Replay earlier answers token by token, with reasoning that clients lost: off, on "
       "(answers named by ids of tool calls, and the turns after them) or all, found by their "
       "text (default: on)",
       OneOf(kExactReplayNames, options.exact_replay)});
  command.Add({"--exact-replay-memory", "SIZE",
               "Memory for answers to replay; the least recently used are dropped (default: 64M)",
               MemorySize(options.exact_replay_bytes)});
}

void AddAddress(Command& command, ServeCommand& options) {
  command.Group("Server");
  command.Add({"--host", "ADDRESS",
               "Address to listen at; 0.0.0.0 for all (default: FATHOM_HOST, else 127.0.0.1, this "
               "machine alone)",
               Text(options.http.host)});
  command.Add({"--port", "N",
               "Port to listen at; 0: any free port (default: FATHOM_PORT, else 8000)",
               Integer(0, 65535, options.http.port)});
  command.Add({"--served-model-name", "NAMES",
               "Names of the model, separated by commas (default: its directory's name)",
               Text(options.names), Repeat::kCommas});
  command.AddFlag("--strict-model-names", options.service.strict_model_names,
                  "Refuse requests that name another model (default: accept any name)");
  command.AddFlag("--recipes", options.recipes,
                  "Print the settings of Claude Code, Codex and other programs for this server");
  // Only for --help: the file is read before this parser sees the words.
  command.Add({"--config", "FILE",
               "A file of options: a JSON object with their names as keys (default: FATHOM_CONFIG)",
               [](const std::string&) { return Status(); }});
}

void AddAccess(Command& command, ServeCommand& options) {
  command.Group("Access");
  command.Add({"--api-key", "KEY",
               "Require this API key; may be repeated (default: FATHOM_API_KEY, else no key)",
               Text(options.service.access.api_keys), Repeat::kEach});
  command.Add({"--api-key-file", "FILE",
               "Keys from a file, one a line, which other users cannot see",
               Text(options.api_key_file)});
  command.Add({"--isolate-keys", "MODE",
               "Keep stored responses, answers to replay and cached text of each API key from the "
               "others: on or off (default: on where there are several keys)",
               OnOff(options.isolate_keys)});
  command.Add({"--admin-key", "KEY",
               "Let holders of this key list and end requests: GET /slots, POST /abort "
               "(default: nobody); may be repeated",
               Text(options.service.access.admin_keys), Repeat::kEach});
  command.Add({"--admin-key-file", "FILE",
               "Keys from a file, one a line, which other users cannot see",
               Text(options.admin_key_file)});
  command.Add({"--cors-origins", "ORIGINS",
               "Web sites whose pages may send requests, like https://example.org, separated by "
               "commas; *: all (default: only the server's own page)",
               Text(options.service.access.cors_origins), Repeat::kCommas});
  command.Add({"--allowed-hosts", "NAMES",
               "Host names of this server besides localhost, addresses, names in .local and "
               ".internal and the machine's own, separated by commas; *: all. Not checked if there "
               "are API keys",
               Text(options.service.access.allowed_hosts), Repeat::kCommas});
  command.AddFlag("--protect-metrics", options.service.protect_metrics,
                  "Require a key for GET /metrics, too");
}

void AddLimits(Command& command, ServeCommand& options) {
  command.Group("Limits");
  command.Add({"--max-request-bytes", "SIZE", "Longest body of a request (default: 64M)",
               MemorySize(options.http.limits.body_bytes)});
  command.Add({"--max-connections", "N", "Connections at once (default: 4096)",
               Integer(1, 100000, options.http.limits.connections)});
  command.Add({"--max-waiting", "N",
               "Requests that may wait for their turn; more get 429 (default: 4096)",
               Integer(0, 1000000, options.engine.max_waiting)});
  command.Add({"--max-choices", "N", "Largest n of a request (default: 8)",
               Integer(1, 128, options.max_choices)});
  command.Add({"--request-timeout", "SECONDS",
               "Most seconds of an answer; 0: no limit (default: 0)",
               Number(0, 1e6, options.request_timeout)});
  command.Add({"--drain-timeout", "SECONDS",
               "Seconds that running answers get to finish on shutdown (default: 30)",
               Number(0, 1e6, options.drain_timeout)});
}

}  // namespace

void AddCommand(Command& root, ServeCommand& options) {
  Command command = root.AddCommand(
      options.kName, "Serve the OpenAI and Anthropic APIs and a chat page over HTTP");
  AddAnswers(command, options);
  AddAddress(command, options);
  AddAccess(command, options);
  AddLimits(command, options);
  AddEngine(command, options);
  AddModelArgument(command, options.run.model);
  command.Footer(
      "Sampling options hold for requests that do not say otherwise. Ctrl-C or SIGTERM lets "
      "running\n"
      "answers finish; a second one ends the server at once. docs/serve.md has the APIs.\n"
      "Examples:\n"
      "  fathom serve\n"
      "  fathom serve DIR --served-model-name deepseek-v4-flash --port 8080\n"
      "  fathom serve --model DIR --host 0.0.0.0 --api-key-file keys.txt --log-format json\n"
      "  fathom serve --config server.json");
}

}  // namespace fathom::cli
