// The words of the command line as the parser takes them: files of options are read in place, and
// what other servers call an option is called as ours.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace fathom::cli {

// Settings of the environment, which the command line overrides; empty: not set.
struct ServeEnvironment {
  std::string config{};   // FATHOM_CONFIG: as --config
  std::string host{};     // FATHOM_HOST
  std::string port{};     // FATHOM_PORT
  std::string api_key{};  // FATHOM_API_KEY: a key beside the keys of files
};

// `help COMMAND` and `version` become `COMMAND --help` and `--version`. The rest is for `serve`
// only; the words of other commands stay as they are.
//
// A word directly after `serve` that is no option is the model's directory.
//
// --config FILE: a JSON object whose keys are names of options without the dashes in front:
//   {"model": "DIR", "port": 8080, "api-key": ["a", "b"], "strict-model-names": true}
// An option that is also in the environment counts there, and one that is on the command line
// counts there. A list repeats the option; true is a flag that is given, or "on"; false one that is
// not, or "off"; null is nothing.
//
// Names of vLLM and SGLang: --max-model-len, --max-num-seqs, --max-num-batched-tokens,
// --allowed-origins and others. Options of theirs that choose a parser or a template are dropped:
// the parser of this model is always on.
struct ExpandedArguments {
  std::vector<std::string> words;            // without the program's name
  std::vector<std::string> dropped;          // names of options that mean nothing here
  std::vector<std::string> files_with_keys;  // files of --config that hold a key
};

// Errors: a file that cannot be read, is no such object, or names itself; a port of the environment
// that is none. For the parser to say is what is wrong with other values.
Result<ExpandedArguments> ExpandArguments(const std::vector<std::string>& words,
                                          const ServeEnvironment& environment);

}  // namespace fathom::cli
