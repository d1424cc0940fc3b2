#include "chat/strict_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>

#include "chat/literals.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

constexpr std::string_view kBlockOpen = "\n\n<｜DSML｜tool_calls";
constexpr std::string_view kBlockClose = "</｜DSML｜tool_calls>";
constexpr std::string_view kInvokeOpen = "<｜DSML｜invoke";
constexpr std::string_view kInvokeClose = "</｜DSML｜invoke";
constexpr std::string_view kParameterOpen = "<｜DSML｜parameter";
constexpr std::string_view kParameterClose = "/｜DSML｜parameter";

// Reads from left to right and keeps the first error.
class StrictReader {
 public:
  explicit StrictReader(std::string_view text) : text_(text) {}

  Result<Answer> Read(ThinkingMode mode) {
    Answer answer;
    if (mode == ThinkingMode::kThinking) {
      answer.reasoning_content = ReadUntil({kThinkCloseToken, kBlockOpen});
      if (stop_ != kThinkCloseToken) Fail("</think> after the reasoning");
    }
    answer.content = ReadUntil({kEndOfSentence, kBlockOpen});
    if (stop_.empty()) Fail("the end-of-sentence token or calls after the content");
    if (stop_ == kBlockOpen) {
      ReadCalls(&answer);
      if (!ReadUntil({kEndOfSentence}).empty()) Fail("the end-of-sentence token after the calls");
    }
    if (position_ != text_.size()) Fail("the end of the text");
    CheckNoToken(answer.reasoning_content);
    CheckNoToken(answer.content);
    if (error_) return Unexpected(*error_);
    answer.finish_reason =
        answer.tool_calls.empty() ? ChatFinishReason::kStop : ChatFinishReason::kToolCalls;
    return answer;
  }

 private:
  void Fail(std::string_view expected) {
    if (error_) return;
    error_ = Error{ErrorCode::kInvalidData,
                   fmt::format("answer, byte {}: expected {}", position_, expected)};
  }

  // Advances past the first of the stops and returns the text before it. stop_ is the stop found;
  // if there is none, it is "" and all remaining text is returned.
  std::string_view ReadUntil(std::initializer_list<std::string_view> stops) {
    const std::size_t begin = position_;
    stop_ = {};
    for (; position_ < text_.size(); ++position_) {
      for (const std::string_view stop : stops) {
        if (!text_.substr(position_).starts_with(stop)) continue;
        stop_ = stop;
        const std::string_view before = text_.substr(begin, position_ - begin);
        position_ += stop.size();
        return before;
      }
    }
    return text_.substr(begin);
  }

  // Reads the calls after the block's opener, whose bracket has been read.
  void ReadCalls(Answer* answer) {
    while (!error_) {
      if (ReadUntil({kInvokeOpen, kBlockClose}) != ">\n") Fail("'>' and a new line");
      if (stop_.empty()) Fail("another call or the end of the block");
      if (stop_ == kBlockClose) return;
      if (!error_) answer->tool_calls.push_back(ReadCall());
    }
  }

  ToolCall ReadCall() {
    ToolCall call;
    const std::optional<std::string_view> name =
        NameOfCall(ReadUntil({kParameterOpen, kInvokeClose}));
    if (!name) Fail("the name of the tool");
    call.name = name.value_or("");
    std::set<std::string_view> names;
    call.arguments.assign(1, '{');
    while (!error_ && stop_ == kParameterOpen) {
      const Parameter parameter = ReadParameter();
      if (!names.insert(parameter.name).second) Fail("no second parameter of the same name");
      if (names.size() > 1) call.arguments += ", ";
      call.arguments += PythonJsonString(parameter.name);
      call.arguments += ": ";
      call.arguments +=
          parameter.is_string ? PythonJsonString(parameter.value) : std::string(parameter.value);
      if (ReadUntil({kParameterOpen, kInvokeClose}) != ">\n") Fail("'>' and a new line");
    }
    if (stop_.empty()) Fail("the end of the call");
    call.arguments.push_back('}');
    return call;
  }

  // Parses ` name="N">\n`, with one more newline if there are no parameters.
  static std::optional<std::string_view> NameOfCall(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with("name=\"")) return std::nullopt;
    text.remove_prefix(6);
    if (text.ends_with(">\n\n")) text.remove_suffix(1);
    if (!text.ends_with("\">\n")) return std::nullopt;
    return text.substr(0, text.size() - 3);
  }

  struct Parameter {
    std::string_view name;
    std::string_view value;
    bool is_string = false;
  };

  // Parses ` name="K" string="true|false">V<`, up to the slash of the closer. The name ends at the
  // first place where the rest matches.
  Parameter ReadParameter() {
    Parameter parameter;
    std::string_view text = ReadUntil({kParameterClose});
    if (stop_.empty()) Fail("the end of the parameter");
    constexpr std::string_view kName = " name=\"";
    if (text.ends_with("<\n")) text.remove_suffix(1);
    if (!text.starts_with(kName) || !text.ends_with("<")) {
      Fail("the name of the parameter and its value");
      return parameter;
    }
    text = text.substr(kName.size(), text.size() - kName.size() - 1);
    constexpr std::string_view kTrue = "\" string=\"true\">";
    constexpr std::string_view kFalse = "\" string=\"false\">";
    const std::size_t at_true = text.find(kTrue);
    const std::size_t at_false = text.find(kFalse);
    if (at_true == at_false) {  // neither was found
      Fail("string=\"true\" or string=\"false\"");
      return parameter;
    }
    parameter.is_string = at_true < at_false;
    const std::size_t end = std::min(at_true, at_false);
    parameter.name = text.substr(0, end);
    parameter.value = text.substr(end + (parameter.is_string ? kTrue : kFalse).size());
    return parameter;
  }

  void CheckNoToken(std::string_view text) {
    for (const std::string_view token :
         {kBeginOfSentence, kEndOfSentence, kThinkOpenToken, kThinkCloseToken, kDsml}) {
      if (text.find(token) != std::string_view::npos) {
        Fail(fmt::format("no {} in the reasoning or the content", token));
      }
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::string_view stop_;
  std::optional<Error> error_;
};

}  // namespace

Result<Answer> ParseStrictly(std::string_view text, ThinkingMode mode) {
  return StrictReader(text).Read(mode);
}

}  // namespace fathom::chat
