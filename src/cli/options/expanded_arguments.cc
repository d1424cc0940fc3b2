#include "cli/options/expanded_arguments.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "cli/options/option_values.h"
#include "cli/terminal/output.h"
#include "json/json_value.h"

namespace fathom::cli {
namespace {

// Options that have no meaning here and take a value.
constexpr std::string_view kMeaningless[] = {
    "--tokenizer-mode", "--tool-call-parser", "--reasoning-parser",
    "--chat-template",  "--kv-cache-dtype",   "--block-size",
};
// Options that have no meaning here and take no value.
constexpr std::string_view kMeaninglessFlags[] = {"--enable-auto-tool-choice",
                                                  "--enable-prefix-caching", "--trust-remote-code",
                                                  "--enable-expert-parallel"};

// Options whose value is a secret.
constexpr std::string_view kKeys[] = {"--api-key", "--admin-key"};

// Options whose value is on or off, where a JSON file may say true or false.
constexpr std::string_view kOnOff[] = {"isolate-keys", "pin", "prefix-cache", "thinking"};

// The names of others for one of our options, separated by blanks.
struct ForeignNames {
  std::string_view ours;
  std::string_view taken;  // ForeignOption::serve_takes
  std::string_view known;
};

constexpr ForeignNames kForeignNames[] = {
    {"--context", "--max-model-len --context-length --ctx", "--ctx-size -c"},
    {"--max-sequences", "--max-num-seqs --max-seqs", "--max-running-requests --parallel -np"},
    {"--max-batch-tokens", "--max-num-batched-tokens --chunked-prefill-size",
     "--batch-size -b --ubatch-size -ub"},
    {"--kv-memory", "", "--gpu-memory-utilization --mem-fraction-static --max-total-tokens"},
    {"--prefix-cache", "", "--no-enable-prefix-caching --disable-radix-cache"},
    {"--draft", "", "--num-speculative-tokens --speculative-num-steps --draft-max"},
    {"--tp", "--tensor-parallel-size", "--tp-size -tp"},
    {"--pp", "--pipeline-parallel-size", "--pp-size -pp"},
    {"--ep", "", "--ep-size"},
    {"--dp-attention", "", "--enable-dp-attention"},
    {"--cors-origins", "--allowed-origins", ""},
    {"--max-waiting", "--max-queue", ""},
    {"--request-timeout", "", "--timeout"},
    {"--served-model-name", "", "--alias -a"},
    {"--model", "", "--model-path -m"},
    {"--threads", "", "-t"},
    {"--lock", "", "--mlock"},
    {"--max-tokens", "", "--n-predict --predict"},
    {"--temperature", "", "--temp"},
    {"--repetition-penalty", "", "--repeat-penalty"},
    {"--seed", "", "-s"},
    {"", "", "--n-gpu-layers --gpu-layers -ngl --dtype --quantization -q --tokenizer --swap-space"},
};

bool HasWord(std::string_view words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

template <class List>
bool Contains(const List& list, std::string_view entry) {
  return std::find(std::begin(list), std::end(list), entry) != std::end(list);
}

std::string OptionName(const std::string& word) { return word.substr(0, word.find('=')); }

// Returns our "--name" for "--name" or "--name=value" of another server.
std::string Renamed(const std::string& word) {
  const std::string name = OptionName(word);
  const std::optional<ForeignOption> foreign = FindForeignOption(name);
  return foreign && foreign->serve_takes ? std::string(foreign->ours) + word.substr(name.size())
                                         : word;
}

// Returns the first word that is neither an option of the program nor an option's value.
std::vector<std::string>::const_iterator FindCommand(const std::vector<std::string>& words) {
  auto word = words.begin();
  while (word != words.end() && word->starts_with('-')) {
    const bool takes_next = *word == "--log-level" || *word == "--log-format";
    word += takes_next && word + 1 != words.end() ? 2 : 1;
  }
  return word;
}

Status AddValue(const std::string& file, const std::string& key, const JsonValue& value,
                std::vector<std::string>* words) {
  const bool is_bool = value.kind() == JsonValue::Kind::kBool;
  if (is_bool && Contains(kOnOff, key)) {
    words->push_back(fmt::format("--{}={}", key, value.boolean() ? "on" : "off"));
  } else if (is_bool) {
    if (value.boolean()) words->push_back("--" + key);
  } else if (value.IsString()) {
    words->push_back(fmt::format("--{}={}", key, value.text()));
  } else if (value.AsDouble()) {
    words->push_back(fmt::format("--{}={}", key, value.text()));
  } else {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: {}: expected a string, a number, true, false or a list of them, found {}",
                     file, key, value.Describe());
  }
  return {};
}

// `source`: the option or variable that names the file, for errors.
Status AddFile(std::string_view source, const std::string& file,
               const std::vector<std::string>& given, ExpandedArguments* expanded) {
  const Result<std::string> text = ReadInput(file, kMostSettingsBytes);
  if (!text) return MakeError(text.error().code, "{}: {}", source, text.error().message);
  const Result<JsonValue> json = ParseJson(*text, {.python_constants = false});
  if (!json || !json->IsObject()) {
    return MakeError(
        ErrorCode::kInvalidArgument, "{}: {}: expected a JSON object of options, found {}", source,
        file, json ? json->Describe() : fmt::format("other text ({})", json.error().message));
  }
  bool has_keys = false;
  for (std::size_t i = 0; i < json->items().size(); ++i) {
    const std::string key(json->key(i));
    const JsonValue& value = json->items()[i];
    const std::string name = OptionName(Renamed("--" + key));
    if (name == "--config") {
      return MakeError(ErrorCode::kInvalidArgument, "{}: config: a file cannot name another", file);
    }
    has_keys = has_keys || (Contains(kKeys, name) && !value.IsNull());
    if (Contains(given, name) || value.IsNull()) continue;
    const std::string plain = name.substr(2);
    const auto values = value.IsArray() ? value.items() : std::span(&value, 1);
    for (const JsonValue& entry : values) {
      if (Status added = AddValue(file, plain, entry, &expanded->words); !added) return added;
    }
  }
  if (has_keys) expanded->files_with_keys.push_back(file);
  return {};
}

// Adds the settings of the environment that `given` does not contain, and adds their names to
// `given`.
Status AddEnvironment(const ServeEnvironment& environment, std::vector<std::string>* given,
                      std::vector<std::string>* words) {
  const auto add = [&](std::string_view option, const std::string& value) {
    if (value.empty() || Contains(*given, option)) return;
    words->push_back(fmt::format("{}={}", option, value));
    given->emplace_back(option);
  };
  add("--host", environment.host);
  // Kubernetes sets tcp://ADDRESS:PORT if a service has the name "fathom".
  if (!environment.port.starts_with("tcp://")) {
    int port = 0;
    const Status is_port = Integer(0, 65535, port)(environment.port);
    if (!environment.port.empty() && !is_port) {
      return MakeError(is_port.error().code, "FATHOM_PORT: {}", is_port.error().message);
    }
    add("--port", environment.port);
  }
  if (!Contains(*given, "--api-key-file")) add("--api-key", environment.api_key);
  return {};
}

// Returns the words of `help COMMAND` and `version` as options; other words stay unchanged.
std::vector<std::string> WithoutHelpWords(std::vector<std::string> words) {
  const auto command = words.begin() + (FindCommand(words) - words.begin());
  if (command == words.end()) return words;
  if (*command == "version") {
    *command = "--version";
  } else if (*command == "help") {
    words.erase(command);
    words.emplace_back("--help");
  }
  return words;
}

}  // namespace

std::optional<ForeignOption> FindForeignOption(std::string_view name) {
  if (name.empty() || name.find(' ') != std::string_view::npos) return std::nullopt;
  for (const auto& [ours, taken, known] : kForeignNames) {
    if (HasWord(taken, name)) return ForeignOption{.ours = ours, .serve_takes = true};
    if (HasWord(known, name)) return ForeignOption{.ours = ours};
  }
  return std::nullopt;
}

Result<ExpandedArguments> ExpandArguments(const std::vector<std::string>& typed,
                                          const ServeEnvironment& environment) {
  const std::vector<std::string> words = WithoutHelpWords(typed);
  ExpandedArguments expanded;
  const auto serve = FindCommand(words);
  if (serve == words.end() || *serve != "serve") {
    expanded.words = words;
    return expanded;
  }
  expanded.words.assign(words.begin(), serve + 1);
  std::vector<std::string> rest;
  std::vector<std::string> given;
  std::vector<std::string> files;
  for (auto word = serve + 1; word != words.end(); ++word) {
    const std::string name = OptionName(*word);
    const bool has_value = name.size() < word->size();
    if (word == serve + 1 && !word->empty() && !word->starts_with('-')) {
      rest.push_back("--model=" + *word);
      given.emplace_back("--model");
    } else if (Contains(kMeaningless, name) || Contains(kMeaninglessFlags, name)) {
      expanded.dropped.push_back(name);
      if (Contains(kMeaningless, name) && !has_value && word + 1 != words.end()) ++word;
    } else if (name == "--config" && has_value) {
      files.push_back(word->substr(name.size() + 1));
    } else if (name == "--config" && word + 1 != words.end()) {
      files.push_back(*++word);
    } else {
      rest.push_back(Renamed(*word));
      given.push_back(OptionName(rest.back()));
    }
  }
  const bool is_of_environment = files.empty() && !environment.config.empty();
  if (is_of_environment) files.push_back(environment.config);
  if (Status added = AddEnvironment(environment, &given, &expanded.words); !added) {
    return Unexpected(added.error());
  }
  for (const std::string& file : files) {
    const Status added =
        AddFile(is_of_environment ? "FATHOM_CONFIG" : "--config", file, given, &expanded);
    if (!added) return Unexpected(added.error());
  }
  expanded.words.insert(expanded.words.end(), rest.begin(), rest.end());
  return expanded;
}

}  // namespace fathom::cli
