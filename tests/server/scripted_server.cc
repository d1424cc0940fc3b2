// A server with scripted answers, for tests that drive it from outside:
//
//   scripted_server SCRIPTS.json [KEY]
//
// The file: {"NAME": {"text": "...", "delay_ms": 0, "first_delay_ms": 0, "finish": "stop" |
// "length" | "error", "refuse": "queue_full"}, ...}. A request gets the answer named by
// "script:NAME" in its last user turn (or anywhere in its prompt; the last one counts), else
// "default". Prints the port on a line, and ends when standard input does.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/responses/response_store.h"
#include "constraint/constraint.h"
#include "engine/metrics.h"
#include "server/service.h"
#include "tests/server/scripted_runner.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using Json = nlohmann::json;

std::string ScriptName(const std::string& prompt) {
  constexpr std::string_view kMark = "script:";
  const std::size_t mark = prompt.rfind(kMark);
  if (mark == std::string::npos) return "default";
  const std::size_t begin = mark + kMark.size();
  const std::size_t end = prompt.find_first_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", begin);
  return prompt.substr(begin, end - begin);
}

Result<ScriptedAnswer> ScriptedAnswerTo(const Json& scripts, const std::string& prompt) {
  const std::string name = ScriptName(prompt);
  const Json& script = scripts.contains(name) ? scripts[name] : scripts["default"];
  if (script.contains("refuse")) {
    return MakeError(ErrorCode::kResourceExhausted, "the queue is full");
  }
  ScriptedAnswer answer = {
      .text = script.value("text", ""),
      .delay = std::chrono::milliseconds(script.value("delay_ms", 0)),
      .first_delay = std::chrono::milliseconds(script.value("first_delay_ms", 0))};
  const std::string finish = script.value("finish", "stop");
  if (finish == "length") answer.finish = FinishReason::kLength;
  if (finish == "error") {
    answer.finish = FinishReason::kError;
    answer.error = Error{ErrorCode::kIo, "the script says that this fails"};
  }
  return answer;
}

int Run(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  const Json scripts =
      Json::parse(std::string(std::istreambuf_iterator<char>(file), {}), nullptr, false);
  if (!scripts.is_object() || !scripts.contains("default")) {
    std::fprintf(stderr, "scripted_server: %s: expected an object with \"default\"\n",
                 path.c_str());
    return 1;
  }
  const Result<Tokenizer> tokenizer = Tokenizer::Load(ProjectPath("models/fairy"));
  if (!tokenizer) return 1;
  ResponseStore responses;
  GeneratedTurnStore turns(ReplayScope::kNamed, GeneratedTurnStore::kDefaultBytes,
                           SystemRandomBits());
  const std::vector<Token> ends = {1};
  ConstraintCompiler compiler(
      std::make_shared<ConstraintVocabulary>(*tokenizer, tokenizer->vocab_size(), ends));
  const ApiModel model = {
      .tokenizer = &*tokenizer,
      .profile = PreviewProfile(),
      .bos = 0,
      .eos = 1,
      .name = "fairy",
      .fingerprint = "fathom-scripted",
      .limits = {.vocab_size = tokenizer->vocab_size(), .max_context = 4096},
      .compile_constraint = [&](const ConstraintSpec& spec,
                                const Caller&) { return compiler.Compile(spec); },
      .responses = &responses,
      .turns = &turns};
  ScriptedRunner runner(
      *tokenizer, [&](const std::string& prompt) { return ScriptedAnswerTo(scripts, prompt); });
  const EngineMetrics metrics;
  ServiceOptions options = {.version = "scripted",
                            .generation = {.random_bits = SystemRandomBits()}};
  if (!key.empty()) options.access.api_keys.push_back(key);
  Service service(std::move(options));
  service.SetModel({.api = &model,
                    .runner = &runner,
                    .metrics = &metrics,
                    .root = "fairy",
                    .names = {"fairy"},
                    .created = 1700000000});
  const auto server = service.Listen({.port = 0});
  if (!server) {
    std::fprintf(stderr, "scripted_server: %s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*server)->Stop();
  return 0;
}

}  // namespace
}  // namespace fathom::testing

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: scripted_server SCRIPTS.json [KEY]\n");
    return 2;
  }
  return fathom::testing::Run(argv[1], argc > 2 ? argv[2] : "");
}
