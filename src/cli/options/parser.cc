#include "cli/options/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/edit_distance.h"
#include "cli/options/expanded_arguments.h"

namespace fathom::cli {
namespace {

// Returns the innermost command that was named, or nullptr.
const CLI::App* ChosenCommand(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) return nullptr;
  const CLI::App* inner = ChosenCommand(*chosen.front());
  return inner != nullptr ? inner : chosen.front();
}

// Returns "bench serve" for the command `serve` inside `bench`.
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

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
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

// Returns ", did you mean X?" if an allowed word is close to the typed one.
std::string Suggestion(const std::string& typed, const std::vector<std::string>& allowed) {
  const auto nearest = std::min_element(allowed.begin(), allowed.end(),
                                        [&](const std::string& a, const std::string& b) {
                                          return EditDistance(typed, a) < EditDistance(typed, b);
                                        });
  if (nearest == allowed.end() || EditDistance(typed, *nearest) > typed.size() / 3 + 1) return {};
  return fmt::format(", did you mean {}?", *nearest);
}

// Returns the suggestion for an option that other servers have.
std::string ForeignSuggestion(const std::string& name, const std::vector<std::string>& allowed) {
  const std::optional<ForeignOption> foreign = FindForeignOption(name);
  if (!foreign) return {};
  if (foreign->ours.empty()) return ", which has no counterpart here";
  return std::ranges::find(allowed, foreign->ours) == allowed.end()
             ? std::string()
             : fmt::format(", which is {} here", foreign->ours);
}

std::vector<std::string> AllowedOptions(const CLI::App& app) {
  const CLI::App* command = ChosenCommand(app);
  std::vector<std::string> allowed = OptionNames(command != nullptr ? *command : app);
  if (command != nullptr) allowed.insert(allowed.end(), {"--log-level", "--log-format"});
  return allowed;
}

std::string ExplainOption(const CLI::App& app, const std::string& name) {
  const std::vector<std::string> allowed = AllowedOptions(app);
  std::string suggestion = ForeignSuggestion(name, allowed);
  if (suggestion.empty()) suggestion = Suggestion(name, allowed);
  return fmt::format("unknown option {}{}", name, suggestion);
}

std::string ExplainUnknown(CLI::App& app, const std::vector<std::string>& unknown) {
  const CLI::App* command = ChosenCommand(app);
  const auto is_option = [](const std::string& word) {
    return word.size() > 1 && word.front() == '-';
  };
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  if (option != unknown.end()) return ExplainOption(app, option->substr(0, option->find('=')));
  if (command == nullptr) {
    const std::vector<std::string> allowed = CommandNames(app);
    return fmt::format("unknown command \"{}\"{}\n  allowed: {}", unknown.front(),
                       Suggestion(unknown.front(), allowed), fmt::join(allowed, " "));
  }
  return fmt::format("{}: unexpected argument \"{}\" (a text with blanks needs quotes)",
                     FullName(*command), unknown.front());
}

// Finds a misread option: the library reads "-ngl" as "-n gl", a wrong value of our option -n.
const std::string* FindMisread(const std::vector<std::string>& words) {
  const auto found = std::ranges::find_if(words, [](const std::string& word) {
    const bool may_be_misread = word.size() > 2 && word[0] == '-' && word[1] != '-';
    return may_be_misread && FindForeignOption(word).has_value();
  });
  return found == words.end() ? nullptr : &*found;
}

std::string ExplainError(CLI::App& app, const std::vector<std::string>& words,
                         const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const CLI::App* command = ChosenCommand(app);
  std::string message = error.what();
  if (const std::string* misread = FindMisread(words); misread != nullptr) {
    message = ExplainOption(app, *misread);
  } else if (!unknown.empty()) {
    message = ExplainUnknown(app, unknown);
  } else if (command != nullptr) {
    message = fmt::format("{}: {}", FullName(*command), message);
  } else if (error.get_name() == "RequiredError") {
    message = fmt::format("which command? One of: {}", fmt::join(CommandNames(app), " "));
  }
  return fmt::format("fathom: error: {}\nTry: fathom {}--help\n", message,
                     command == nullptr ? "" : FullName(*command) + " ");
}

void SetRepeat(Repeat repeat, CLI::Option& option) {
  if (repeat == Repeat::kOnce) return;
  option.expected(CLI::detail::expected_max_vector_size);
  if (repeat == Repeat::kEach) option.allow_extra_args(false);
  if (repeat == Repeat::kCommas) option.delimiter(',');
}

}  // namespace

Command Command::AddCommand(const std::string& name, const std::string& help) {
  Group("Options");  // the command inherits the heading of its own options
  return Command(app_->add_subcommand(name, help));
}

Command Command::Find(const std::string& name) { return Command(app_->get_subcommand(name)); }

Command Command::AddGroup(const std::string& heading, std::size_t most) {
  CLI::App* group = app_->add_option_group(heading);
  group->require_option(1, most);
  return Command(group);
}

void Command::Group(const std::string& heading) { app_->option_defaults()->group(heading); }

void Command::Add(OptionSpec spec) {
  // The check reads the value, so that each text is read only once.
  CLI::Option* option = app_->add_option(
      spec.names, [](const CLI::results_t&) { return true; }, spec.help);
  option->type_name(spec.value)->required(spec.required);
  if (spec.help.empty()) option->group("");
  option->check(CLI::Validator(
      [read = std::move(spec.read)](std::string& text) {
        const Status status = read(text);
        return status ? std::string() : status.error().message;
      },
      "", ""));
  SetRepeat(spec.repeat, *option);
  for (const std::string& other : spec.excludes) option->excludes(app_->get_option(other));
  if (!spec.needs.empty()) option->needs(app_->get_option(spec.needs));
}

void Command::Require(const std::string& names, const std::string& value, const std::string& help,
                      ReadValue read) {
  Add({.names = names, .value = value, .help = help, .read = std::move(read), .required = true});
}

void Command::AddFlag(const std::string& name, bool& given, const std::string& help,
                      const std::string& excludes, const std::string& needs) {
  CLI::Option* flag = app_->add_flag(name, given, help);
  if (!excludes.empty()) flag->excludes(app_->get_option(excludes));
  if (!needs.empty()) flag->needs(app_->get_option(needs));
}

void Command::Footer(const std::string& text) { app_->footer(text); }

void Command::ExcludeOuterOptions() {
  for (CLI::Option* option : app_->get_parent()->get_options()) app_->excludes(option);
}

Parser::Parser(const std::string& description, const std::string& footer, std::string version)
    : app_(std::make_unique<CLI::App>(description, "fathom")) {
  app_->set_version_flag("-V,--version", [version = std::move(version)] { return version; });
  app_->footer(footer);
  app_->require_subcommand(1);
  app_->fallthrough();
}

Parser::~Parser() = default;

Command Parser::root() { return Command(app_.get()); }

ParsedLine Parser::Parse(const std::vector<std::string>& words) {
  // The only place where the library's exceptions end.
  try {
    // The library takes words from the back.
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* command = ChosenCommand(*app_);
    const std::vector<std::string> unknown = app_->remaining(true);
    if (command == nullptr && !unknown.empty()) {
      return {.error = fmt::format("fathom: error: {}\nTry: fathom --help\n",
                                   ExplainUnknown(*app_, unknown)),
              .exit_code = 2};
    }
    return {.out = (command != nullptr ? *command : *app_).help() + "\n"};
  } catch (const CLI::CallForVersion& version) {
    return {.out = std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return {.error = ExplainError(*app_, words, error), .exit_code = 2};
  }
  return {.command = FullName(*ChosenCommand(*app_))};
}

}  // namespace fathom::cli
