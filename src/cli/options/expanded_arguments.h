// Expands the words of the command line for the parser: replaces files of options by their
// contents, and names of other servers' options by ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::cli {

// Settings of the environment, which the command line overrides; empty: not set.
struct ServeEnvironment {
  std::string config{};   // FATHOM_CONFIG: as --config
  std::string host{};     // FATHOM_HOST
  std::string port{};     // FATHOM_PORT
  std::string api_key{};  // FATHOM_API_KEY: a key in addition to the keys of files
};

// `help COMMAND` and `version` become `COMMAND --help` and `--version`. The following rules are for
// `serve` only; the words of other commands stay unchanged.
//
// A word directly after `serve` that is not an option is the model's directory.
//
// --config FILE: a JSON object whose keys are names of options without the leading dashes:
//   {"model": "DIR", "port": 8080, "api-key": ["a", "b"], "strict-model-names": true}
// The environment overrides an option of the file, and the command line overrides both. A list
// repeats the option. true means a flag that is given, or "on"; false means a flag that is not
// given, or "off"; null means that the option is not given.
//
// Names of vLLM and SGLang are accepted: --max-model-len, --max-num-seqs, --max-num-batched-tokens,
// --allowed-origins and others. Their options that choose a parser or a template are dropped: the
// parser of this model is always on.
struct ExpandedArguments {
  std::vector<std::string> words;            // without the program's name
  std::vector<std::string> dropped;          // names of options that have no meaning here
  std::vector<std::string> files_with_keys;  // files of --config that contain a key
};

// Errors: a file that cannot be read, is not such an object, or names itself; a port in the
// environment that is not a port. The parser reports errors in other values.
Result<ExpandedArguments> ExpandArguments(const std::vector<std::string>& words,
                                          const ServeEnvironment& environment);

// An option of vLLM, SGLang or llama.cpp, and ours.
struct ForeignOption {
  std::string_view ours;     // empty: there is no such option here
  bool serve_takes = false;  // `serve` accepts their name: the values are equal
};

// Returns none if no other known server has such an option. `name`: with its dashes.
std::optional<ForeignOption> FindForeignOption(std::string_view name);

}  // namespace fathom::cli
