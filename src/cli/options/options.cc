#include "cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/processors.h"
#include "cli/commands/version.h"
#include "cli/options/command_options.h"
#include "cli/options/expanded_arguments.h"
#include "comm/rank_link.h"

namespace fathom::cli {
namespace {

constexpr const char* kExamples =
    "Every command has its own help: fathom generate --help\n"
    "Examples:\n"
    "  fathom generate \"Once upon a time\"\n"
    "  fathom chat\n"
    "  fathom inspect DIR\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Ranks of this run on this machine that `fathom launch` or Open MPI has started; 1 if none has.
int LocalRanks(const std::string& rank_link) {
  if (const Result<RankLink> link = ParseRankLink(rank_link); link) {
    return link->n_ranks();
  }
  return std::max(std::atoi(Environment("OMPI_COMM_WORLD_LOCAL_SIZE").c_str()), 1);
}

// Who starts processes with MPI says in the environment how many there are.
bool StartedByMpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (const std::string value = Environment(name); !value.empty()) {
      return true;
    }
  }
  return false;
}

ParsedCommands Defaults() {
  ParsedCommands commands;
  const std::string rank_link = Environment(kRankLinkVariable);
  const std::filesystem::path model = Environment("FATHOM_MODEL");
  const RunOptions run = {.model = model,
                          .n_threads = std::max(AvailableCores() / LocalRanks(rank_link), 1),
                          .cpu_isa = "",
                          .n_context = {},
                          .ranks = {.link = rank_link, .mpi = StartedByMpi()}};
  commands.generate.run = run;
  commands.chat.run = run;
  commands.serve.run = run;
  commands.batch.run = run;
  commands.chat.use_style = Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  commands.inspect.model = model;
  commands.tokenize.model = model;
  commands.encode.model = model;
  commands.logits.run = run;
  commands.make_slice.n_threads = run.n_threads;
  commands.bench.run = run;
  commands.plan.model = model;
  return commands;
}

// The command that was named, or nullptr.
const CLI::App* ChosenCommand(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    return nullptr;
  }
  const CLI::App* inner = ChosenCommand(*chosen.front());
  return inner != nullptr ? inner : chosen.front();
}

// "bench serve" of the command `serve` inside `bench`.
std::string FullName(const CLI::App& command) {
  const CLI::App* outer = command.get_parent();
  return outer == nullptr || outer->get_parent() == nullptr
             ? command.get_name()
             : FullName(*outer) + " " + command.get_name();
}

std::vector<std::string> CommandNames(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names.push_back(command->get_name());
  }
  return names;
}

// "--model" of "--model=x".
std::string OptionName(const std::string& argument) {
  return argument.substr(0, argument.find('='));
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) {
      continue;  // hidden
    }
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  for (const CLI::App* group : command.get_subcommands(nullptr)) {
    if (group->get_name().empty()) {  // an option group
      const std::vector<std::string> more = OptionNames(*group);
      names.insert(names.end(), more.begin(), more.end());
    }
  }
  return names;
}

// Letters to insert, remove or change to make one of the other.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// ", did you mean X?" if something allowed is close to what was typed.
std::string Suggestion(const std::string& typed, const std::vector<std::string>& allowed) {
  const auto nearest = std::min_element(allowed.begin(), allowed.end(),
                                        [&](const std::string& a, const std::string& b) {
                                          return EditDistance(typed, a) < EditDistance(typed, b);
                                        });
  if (nearest == allowed.end() || EditDistance(typed, *nearest) > typed.size() / 3 + 1) {
    return {};
  }
  return fmt::format(", did you mean {}?", *nearest);
}

std::string ExplainArguments(CLI::App& app, const std::vector<std::string>& unknown) {
  const CLI::App* command = ChosenCommand(app);
  const auto is_option = [](const std::string& argument) {
    return argument.size() > 1 && argument.front() == '-';
  };
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  if (option != unknown.end()) {
    const std::string name = OptionName(*option);
    std::vector<std::string> allowed = OptionNames(command != nullptr ? *command : app);
    if (command != nullptr) allowed.insert(allowed.end(), {"--log-level", "--log-format"});
    return fmt::format("unknown option {}{}\n  allowed: {}", name, Suggestion(name, allowed),
                       fmt::join(allowed, " "));
  }
  if (command == nullptr) {
    const std::vector<std::string> allowed = CommandNames(app);
    return fmt::format("unknown command \"{}\"{}\n  allowed: {}", unknown.front(),
                       Suggestion(unknown.front(), allowed), fmt::join(allowed, " "));
  }
  return fmt::format("{}: unexpected argument \"{}\" (a text with blanks needs quotes)",
                     FullName(*command), unknown.front());
}

std::string ExplainError(CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const CLI::App* command = ChosenCommand(app);
  std::string message;
  if (!unknown.empty()) {
    message = ExplainArguments(app, unknown);
  } else if (command == nullptr && error.get_name() == "RequiredError") {
    message = fmt::format("which command? One of: {}", fmt::join(CommandNames(app), " "));
  } else {
    message =
        command == nullptr ? error.what() : fmt::format("{}: {}", FullName(*command), error.what());
  }
  return fmt::format("fathom: error: {}\nTry: fathom {}--help\n", message,
                     command == nullptr ? "" : FullName(*command) + " ");
}

template <std::size_t n>
std::size_t IndexOf(const std::string_view (&names)[n], std::string_view name) {
  return static_cast<std::size_t>(std::find(std::begin(names), std::end(names), name) -
                                  std::begin(names));
}

Options SelectOptions(const CLI::App& app, ParsedCommands& commands) {
  const std::string name = FullName(*ChosenCommand(app));
  const std::string default_level = name == "serve" ? "info" : "warn";
  const std::string level = commands.log_level.empty() ? default_level : commands.log_level;
  Options options = {
      .log_level = static_cast<LogLevel>(IndexOf(kLogLevelNames, level)),
      .log_format = static_cast<LogFormat>(IndexOf(kLogFormatNames, commands.log_format)),
      .command = std::move(commands.generate)};
  if (name == "chat") {
    options.command = std::move(commands.chat);
  } else if (name == "serve") {
    options.command = std::move(commands.serve);
  } else if (name == "batch") {
    options.command = std::move(commands.batch);
  } else if (name == "inspect") {
    options.command = std::move(commands.inspect);
  } else if (name == "tokenize") {
    options.command = std::move(commands.tokenize);
  } else if (name == "encode") {
    options.command = std::move(commands.encode);
  } else if (name == "parse") {
    options.command = std::move(commands.parse);
  } else if (name == "logits") {
    options.command = std::move(commands.logits);
  } else if (name == "make-slice") {
    options.command = std::move(commands.make_slice);
  } else if (name == "bench") {
    options.command = std::move(commands.bench);
  } else if (name == "bench serve") {
    options.command = std::move(commands.bench_serve);
  } else if (name == "launch") {
    options.command = std::move(commands.launch);
  } else if (name == "plan") {
    options.command = std::move(commands.plan);
  }
  return options;
}

// `fathom launch -n N COMMAND ...`: the words before COMMAND, and from it on.
std::pair<std::vector<std::string>, std::vector<std::string>> SplitLaunch(
    const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with('-')) {
    at += words[at].find('=') == std::string::npos && words[at].starts_with("--log") ? 2u : 1u;
  }
  if (at >= words.size() || words[at] != "launch") {
    return {words, {}};
  }
  for (++at; at < words.size() && words[at].starts_with('-');) {
    at += words[at] == "-n" || words[at] == "--ranks" ? 2u : 1u;
  }
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size()));
  return {{words.begin(), end}, {end, words.end()}};
}

CommandLine ParseWords(const std::vector<std::string>& words) {
  CLI::App app("Fathom runs DeepSeek-V4 from its published files.", "fathom");
  ParsedCommands commands = Defaults();
  app.set_version_flag("-V,--version", [] { return VersionText(); });
  app.footer(kExamples);
  app.require_subcommand(1);
  app.fallthrough();
  AddCommands(app, commands);
  // The one seam where the parser's exceptions end.
  try {
    // The parser takes them from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* command = ChosenCommand(app);
    return {.options = {}, .out = (command != nullptr ? *command : app).help() + "\n", .error = {}};
  } catch (const CLI::CallForVersion& version) {
    return {.options = {}, .out = std::string(version.what()) + "\n", .error = {}};
  } catch (const CLI::ParseError& error) {
    return {.options = {}, .out = {}, .error = ExplainError(app, error), .exit_code = 2};
  }
  CommandLine line = {.options = SelectOptions(app, commands), .out = {}, .error = {}};
  return line;
}

}  // namespace

CommandLine ParseCommandLine(int argc, char** argv) {
  const Result<ExpandedArguments> arguments =
      ExpandArguments({argv + std::min(argc, 1), argv + argc});
  if (!arguments) {
    return {.options = {},
            .out = {},
            .error = fmt::format("fathom: error: {}\n", arguments.error().message),
            .exit_code = 2};
  }
  const auto [words, launched] = SplitLaunch(arguments->words);
  if (!launched.empty()) {
    // What is wrong with it is said once, not by every rank.
    CommandLine inner = ParseWords(launched);
    if (!inner.options) return inner;
  }
  CommandLine line = ParseWords(words);
  if (line.options) {
    line.options->dropped = arguments->dropped;
    line.options->rank_link = Environment(kRankLinkVariable);
    if (auto* launch = std::get_if<LaunchCommand>(&line.options->command); launch != nullptr) {
      launch->arguments = launched;
    }
  }
  return line;
}

}  // namespace fathom::cli
