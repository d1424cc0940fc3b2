#include "chat/custom_tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

// Returns the number of bytes inside a JSON string that encode whole characters, up to its closing
// quote or the end.
std::size_t WholeCharacters(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && text[end] != '"') {
    std::size_t bytes = 1;
    if (text[end] == '\\') bytes = text.substr(end + 1).starts_with('u') ? 6 : 2;
    if (end + bytes > text.size()) break;
    end += bytes;
  }
  return end;
}

}  // namespace

ToolSpec CustomFunction(const CustomTool& tool, std::string path) {
  // The description shows the grammar, so that the model knows which texts it may write.
  std::string input = "The whole input of the tool, as plain text.";
  if (!tool.definition.empty()) {
    input += fmt::format(" It must match this {} grammar:\n{}", tool.syntax, tool.definition);
  }
  return {.name = std::string(tool.name),
          .function_json = fmt::format(
              R"({{"name": {}, "description": {}, "parameters": {{"type": "object", "properties": )"
              R"({{"{}": {{"type": "string", "description": {}}}}}, "required": ["{}"]}}}})",
              PythonJsonString(tool.name), PythonJsonString(tool.description), kCustomInput,
              PythonJsonString(input), kCustomInput),
          .path = std::move(path),
          .text_parameter = std::string(kCustomInput),
          .text_regex = tool.syntax == "regex" ? std::string(tool.definition) : ""};
}

std::string CustomArguments(std::string_view input) {
  return fmt::format(R"({{"{}": {}}})", kCustomInput, PythonJsonString(input));
}

std::string CustomInput(std::string_view arguments) {
  const Result<JsonValue> json = ParseJson(arguments);
  if (!json) return CustomInputStream().Feed(arguments);
  if (!json->IsObject() || json->items().empty()) return "";
  // A model may use another name for the parameter.
  const JsonValue* input = json->Find(kCustomInput);
  const JsonValue& value = input == nullptr ? json->items().front() : *input;
  return value.IsString() ? std::string(value.text()) : PythonJson(value);
}

std::string CustomInputStream::Feed(std::string_view arguments) {
  if (state_ == State::kBehind) return "";
  pending_ += arguments;
  if (state_ == State::kBefore) {
    const std::string opening = fmt::format("{{\"{}\": \"", kCustomInput);
    if (std::string_view(opening).starts_with(pending_)) return "";
    // A complete object is parsed as a whole, because it may have two values for one key.
    if (!pending_.starts_with(opening) || ParseJson(pending_)) {
      state_ = State::kBehind;
      return "";
    }
    state_ = State::kInside;
    pending_.erase(0, opening.size());
  }
  const std::size_t end = WholeCharacters(pending_);
  const Result<JsonValue> text = ParseJson('"' + pending_.substr(0, end) + '"');
  pending_.erase(0, end);
  if (pending_.starts_with('"')) state_ = State::kBehind;
  if (!text) return "";
  n_told_ += text->text().size();
  return std::string(text->text());
}

std::string_view CustomInputStream::Rest(std::string_view text) const {
  return text.substr(std::min(n_told_, text.size()));
}

}  // namespace fathom::chat
