#include "chat/answer.h"

#include <utility>

#include "chat/literals.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

bool IsCut(const Answer& answer, std::size_t call) {
  return answer.cut_call && call + 1 == answer.tool_calls.size();
}

}  // namespace

void AddToAnswer(const AnswerEvent& event, Answer* answer) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoningDelta:
      answer->reasoning_content += event.text;
      break;
    case AnswerEvent::Kind::kContentDelta:
      answer->content += event.text;
      break;
    case AnswerEvent::Kind::kCallBegin:
      answer->tool_calls.push_back({.id = event.id, .name = event.name, .arguments = ""});
      break;
    case AnswerEvent::Kind::kArgumentsDelta:
      answer->tool_calls[event.call].arguments += event.text;
      break;
    case AnswerEvent::Kind::kCallEnd:
      if (event.is_cut) answer->cut_call = event.n_finished;
      break;
    case AnswerEvent::Kind::kFinish:
      answer->finish_reason = event.finish;
      break;
  }
}

std::string FinishedArguments(const Answer& answer, std::size_t call) {
  const std::string& arguments = answer.tool_calls[call].arguments;
  if (!IsCut(answer, call)) return arguments;
  const std::string finished = arguments.substr(0, *answer.cut_call);
  return finished.empty() ? "{}" : finished + "}";
}

std::optional<std::string> CallInput(const Answer& answer, std::size_t call,
                                     const ToolSchemas& tools) {
  std::string input = FinishedArguments(answer, call);
  if (IsCut(answer, call)) {
    const Result<JsonValue> object = ParseJson(input);
    if (!object || tools.RequiresMore(answer.tool_calls[call].name, *object)) return std::nullopt;
  }
  // Valid JSON has newlines only between its parts.
  for (char& c : input) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return input;
}

Answer ParseAnswer(std::string_view text, AnswerParserOptions options, AnswerEnd end) {
  options.stream_arguments = false;
  if (text.ends_with(kEndOfSentence)) {
    text.remove_suffix(kEndOfSentence.size());
    end = AnswerEnd::kStop;
  }
  AnswerParser parser(std::move(options));
  Answer answer;
  for (const AnswerEvent& event : parser.Feed(text)) AddToAnswer(event, &answer);
  for (const AnswerEvent& event : parser.Finish(end)) AddToAnswer(event, &answer);
  answer.stats = parser.stats();
  return answer;
}

std::string AnswerToJson(const Answer& answer) {
  const bool has_content = !answer.content.empty() || answer.tool_calls.empty();
  JsonValue json = {{"role", "assistant"},
                    {"content", has_content ? JsonValue(answer.content) : JsonValue(nullptr)}};
  if (!answer.reasoning_content.empty()) json["reasoning_content"] = answer.reasoning_content;
  for (const ToolCall& call : answer.tool_calls) {
    json["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  json["finish_reason"] = ChatFinishReasonName(answer.finish_reason);
  return PythonJson(json);
}

}  // namespace fathom::chat
