// The grammar of a command line: commands, their options, and the errors of wrong usage. Only this
// parser knows the library that it uses.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Reads the text of one value into its variable (option_values.h). The error says "expected ...,
// found ..."; the parser names the option.
using ReadValue = std::function<Status(const std::string& text)>;

// The number of values that an option may have.
enum class Repeat {
  kOnce,
  kEach,    // --stop A --stop B
  kWords,   // --goodput A B
  kCommas,  // --rate 1,2
};

struct OptionSpec {
  std::string names;  // "-n,--max-tokens"; without dashes: a positional argument
  std::string value;  // the name of the value in --help
  std::string help;   // empty: the option is hidden
  ReadValue read;
  Repeat repeat = Repeat::kOnce;
  bool required = false;
  std::vector<std::string> excludes{};  // contradicting options, added before this one
  std::string needs{};                  // an option that this one requires
};

// Declares the options of one command. A handle into the parser, which owns the command. Variables
// that options set hold the defaults and must outlive the parsing.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const std::string& name, const std::string& help);
  // Returns a command that was added.
  Command Find(const std::string& name);
  // Adds a group of options of which at least one must be given, and at most `most`; 0: any number.
  Command AddGroup(const std::string& heading, std::size_t most);
  // Sets the heading in --help for the options that are added from now on.
  void Group(const std::string& heading);
  void Add(OptionSpec spec);
  // Adds an option or argument that must be given.
  void Require(const std::string& names, const std::string& value, const std::string& help,
               ReadValue read);
  void AddFlag(const std::string& name, bool& given, const std::string& help,
               const std::string& excludes = "", const std::string& needs = "");
  void Footer(const std::string& text);
  // Excludes the options of the enclosing command.
  void ExcludeOuterOptions();

 private:
  CLI::App* app_;
};

// A parsed command line, or the text to print before the program ends.
struct ParsedLine {
  std::string command;  // "bench serve"; empty: print and end
  std::string out;
  std::string error;
  int exit_code = 0;
};

class Parser {
 public:
  // `version`: the text that --version prints.
  Parser(const std::string& description, const std::string& footer, std::string version);
  ~Parser();

  Command root();
  // Called once. `words` are without the name of the program.
  ParsedLine Parse(const std::vector<std::string>& words);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace fathom::cli
