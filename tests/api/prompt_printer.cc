// Writes the prompt of each request: lines {"api": "chat", "request": {...}} in, a JSON string out,
// or {"error": ...}. Used by converter_test.py.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "tests/api/fake_constraint.h"
#include "tokenizer/tokenizer.h"

namespace fathom::api {
namespace {

const Api& ApiNamed(std::string_view name) {
  if (name == "responses") return kResponses;
  return name == "messages" ? kMessages : kChatCompletions;
}

std::string PromptLine(const std::string& line, const ApiModel& model) {
  const Result<JsonValue> json = ParseJson(line);
  const JsonValue* request = json ? json->Find("request") : nullptr;
  if (request == nullptr) return R"({"error": "expected a request"})";
  const ApiResult<ApiCall> call =
      ApiNamed(json->FindText("api")).prepare(request->SourceIn(line), model);
  if (!call) return fmt::format(R"({{"error": {}}})", PythonJsonString(call.error().message));
  const Result<std::string> prompt = model.tokenizer->Decode(call->requests[0].prompt);
  return prompt ? PythonJsonString(*prompt) : R"({"error": "the tokens have no text"})";
}

int Run(const std::filesystem::path& tokenizer_directory) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(tokenizer_directory);
  if (!tokenizer) {
    std::cerr << tokenizer.error().message << "\n";
    return 1;
  }
  testing::FakeCompiler compiler;
  const ApiModel model = {.tokenizer = &*tokenizer,
                          .profile = *FindProfile("v4-0731"),
                          .bos = 0,
                          .eos = 1,
                          .name = "m",
                          .fingerprint = "",
                          .limits = {.vocab_size = tokenizer->vocab_size(), .max_context = 1 << 20},
                          .compile_constraint = compiler.Function()};
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << PromptLine(line, model) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace fathom::api

int main(int argc, char** argv) { return argc == 2 ? fathom::api::Run(argv[1]) : 2; }
