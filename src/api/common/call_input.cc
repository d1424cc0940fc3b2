#include "api/common/call_input.h"

#include <utility>

#include "json/json_value.h"

namespace fathom {
namespace {

// Valid JSON has newlines only between its parts.
std::string OnOneLine(std::string json) {
  for (char& c : json) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return json;
}

}  // namespace

std::optional<std::string> CallInput(const Answer& answer, std::size_t call,
                                     const ToolSchemas& tools) {
  std::string input = FinishedArguments(answer, call);
  const bool is_cut = answer.cut_call && call + 1 == answer.tool_calls.size();
  if (is_cut) {
    const Result<JsonValue> object = ParseJson(input);
    if (!object || tools.RequiresMore(answer.tool_calls[call].name, *object)) return std::nullopt;
  }
  return OnOneLine(std::move(input));
}

}  // namespace fathom
