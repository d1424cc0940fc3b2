#include <string>

#include "chat/answer.h"
#include "chat/call_ids.h"
#include "chat/messages.h"
#include "chat/parser.h"
#include "chat/strict_parser.h"
#include "chat/tool_schemas.h"
#include "cli/commands/commands.h"
#include "cli/terminal/output.h"

namespace fathom::cli {
namespace {

Result<Answer> ReadStrictly(const std::string& text, const ParseCommand& command) {
  Result<Answer> answer =
      ParseStrictly(text, command.thinking ? ThinkingMode::kThinking : ThinkingMode::kChat);
  if (!answer) {
    return MakeError(answer.error().code, "{}: {}",
                     command.answer == "-" ? "standard input" : command.answer,
                     answer.error().message);
  }
  return answer;
}

Result<Answer> ReadTolerantly(const std::string& text, const ParseCommand& command) {
  AnswerParserOptions options = {.starts_in_reasoning = command.thinking};
  if (!command.tools.empty()) {
    const Result<std::string> json = ReadInput(command.tools);
    if (!json) return Unexpected(json.error());
    const Result<std::vector<ToolSpec>> tools = ParseTools(*json, command.tools);
    if (!tools) return Unexpected(tools.error());
    Result<ToolSchemas> schemas = ToolSchemas::Make(*tools);
    if (!schemas) return Unexpected(schemas.error());
    options.tools = *std::move(schemas);
  }
  // Ids of calls; two answers of one conversation should not share them.
  options.random_bits = SystemRandomBits();
  return ParseAnswer(text, std::move(options),
                     command.truncated ? AnswerEnd::kLength : AnswerEnd::kStop);
}

}  // namespace

Status RunCommand(const ParseCommand& command, Log&) {
  const Result<std::string> text = ReadInput(command.answer);
  if (!text) return Unexpected(text.error());
  const Result<Answer> answer =
      command.strict ? ReadStrictly(*text, command) : ReadTolerantly(*text, command);
  if (!answer) return Unexpected(answer.error());
  return Print(AnswerToJson(*answer) + "\n");
}

}  // namespace fathom::cli
