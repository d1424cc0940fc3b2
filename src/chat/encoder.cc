#include "chat/encoder.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/conversation.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::chat {
namespace {

// Collects the spans of one prompt and keeps the first error.
class Writer {
 public:
  explicit Writer(bool trust_client_text) : trust_client_text_(trust_client_text) {}

  void Template(std::string_view text) { Append(text, true); }
  void Client(std::string_view text) { Append(text, trust_client_text_); }
  void Written(const std::vector<Token>& tokens) {
    if (!tokens.empty()) spans_.push_back({.trusted = true, .tokens = tokens});
  }

  // Writes the client's JSON as Python prints it. `what` names it in an error.
  void ClientJson(std::string_view json, std::string_view what) {
    const Result<std::string> text = ReserializeLikePython(json);
    if (text) {
      Client(*text);
    } else if (!error_) {
      error_ =
          Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, text.error().message)};
    }
  }

  void SetError(std::string message) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, std::move(message)};
  }

  // Counts one more argument of a call. Returns false if there are too many; then it must not be
  // written.
  bool CountArgument() {
    if (++n_arguments_ <= kMaxArguments) return true;
    SetError(fmt::format("messages: expected at most {} arguments of all tool calls, found more",
                         kMaxArguments));
    return false;
  }

  const std::optional<Error>& error() const { return error_; }
  std::vector<PromptSpan> TakeSpans() { return std::move(spans_); }

 private:
  void Append(std::string_view text, bool trusted) {
    if (text.empty()) return;
    if (spans_.empty() || spans_.back().trusted != trusted || !spans_.back().tokens.empty()) {
      spans_.push_back({.text = "", .trusted = trusted});
    }
    spans_.back().text.append(text);
  }

  bool trust_client_text_;
  std::vector<PromptSpan> spans_;
  std::size_t n_arguments_ = 0;
  std::optional<Error> error_;
};

void WriteTag(std::string_view opening, std::string_view name, Writer* out) {
  out->Template(opening);
  out->Template(kDsml);
  out->Template(name);
}

void WriteParameter(std::string_view name, std::string_view value, bool is_string, Writer* out) {
  WriteTag("<", "parameter name=\"", out);
  out->Client(name);
  out->Template(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  out->Client(value);
  WriteTag("</", "parameter>", out);
}

// Writes one parameter per line; without arguments, an empty line.
void WriteArguments(const std::string& arguments, Writer* out) {
  const Result<JsonValue> parsed = ParseJson(arguments);
  if (!parsed || !parsed->IsObject()) {
    WriteParameter("arguments", arguments, true, out);
    return;
  }
  for (std::size_t i = 0; i < parsed->items().size() && out->CountArgument(); ++i) {
    const JsonValue& value = parsed->items()[i];
    if (i > 0) out->Template("\n");
    WriteParameter(parsed->key(i), value.IsString() ? std::string(value.text()) : PythonJson(value),
                   value.IsString(), out);
  }
}

void WriteInvoke(std::string_view name, Writer* out) {
  WriteTag("<", "invoke name=\"", out);
  out->Client(name);
  out->Template("\">\n");
}

void WriteToolCalls(const std::vector<ToolCall>& calls, Writer* out) {
  WriteTag("<", "tool_calls>\n", out);
  for (const ToolCall& call : calls) {
    WriteInvoke(call.name, out);
    WriteArguments(call.arguments, out);
    out->Template("\n");
    WriteTag("</", "invoke>\n", out);
  }
  WriteTag("</", "tool_calls>", out);
}

// Writes the parts of system and developer messages after their text.
void WriteAppendices(const Message& message, Writer* out) {
  const std::vector<ToolSpec>& tools = message.tools;
  bool has_block = false;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    if (tools[i].is_deferred) continue;
    if (!has_block) out->Template(kToolsBlockPrefix);
    out->Template(has_block ? kToolSchemaJoiner : kToolsBlockBefore);
    has_block = true;
    out->ClientJson(tools[i].function_json, fmt::format("tools[{}].function", i));
  }
  if (has_block) out->Template(kToolsBlockAfter);
  if (message.response_format) {
    out->Template(kResponseFormatPrefix);
    out->ClientJson(*message.response_format, "response_format");
  }
  if (message.asks_for_object) out->Template(kJsonObjectFormat);
}

void WriteBlocks(const std::vector<ContentBlock>& blocks, Writer* out) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) out->Template(kBlockJoiner);
    const bool is_result = blocks[i].kind == ContentBlock::Kind::kToolResult;
    if (is_result) out->Template(kToolResultOpen);
    out->Client(blocks[i].text);
    if (is_result) out->Template(kToolResultClose);
  }
}

// Renders one turn after another. The fields are constant after construction.
class Renderer {
 public:
  Renderer(const Conversation& conversation, const EncodeOptions& options, Writer* out)
      : conversation_(conversation),
        turns_(conversation.turns),
        options_(options),
        thinks_(options.thinking == ThinkingMode::kThinking),
        out_(out) {}

  void RenderBody(std::size_t index) {
    const Message& message = turns_[index].message;
    switch (message.role) {
      case Role::kSystem:
        out_->Client(message.content);
        WriteAppendices(message, out_);
        break;
      case Role::kDeveloper:
        if (message.content.empty()) {
          out_->SetError("developer message: expected a content that is not empty, found none");
        }
        out_->Template(kUserToken);
        out_->Client(message.content);
        WriteAppendices(message, out_);
        break;
      case Role::kUser:
        out_->Template(kUserToken);
        WriteBlocks(message.blocks, out_);
        break;
      case Role::kLatestReminder:
        out_->Template(kLatestReminderToken);
        out_->Client(message.content);
        break;
      case Role::kAssistant:
        RenderAssistant(index);
        break;
      case Role::kTool:
        Check(false, "tool messages are merged before rendering");
    }
  }

  // Writes the text between this turn and the answer, whether the answer exists or will be
  // generated.
  void RenderTransition(std::size_t index) {
    const Message& message = turns_[index].message;
    const bool is_followed =
        options_.heads_each_turn ? IsFollowedByTurn(index) : HasTransition(index);
    if (!is_followed) return;
    if (message.task) {
      RenderTask(*FindTask(*message.task));
    } else {
      RenderHeader(Signed(index));
    }
  }

  // Writes the header of an answer that begins the conversation.
  void RenderFirstHeader() {
    const bool is_first = !turns_.empty() && turns_.front().message.role == Role::kAssistant;
    if (options_.heads_each_turn && is_first) RenderHeader(-1);
  }

  bool ends_in_reasoning() const { return ends_in_reasoning_; }

 private:
  static std::ptrdiff_t Signed(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

  // Returns true if a turn of the assistant follows, in the messages or as the answer to generate.
  bool IsFollowedByTurn(std::size_t index) const {
    if (index + 1 < turns_.size()) return turns_[index + 1].message.role == Role::kAssistant;
    const Message& message = turns_[index].message;
    return message.role != Role::kAssistant || (options_.begins_turn && !message.leave_open);
  }

  // The official encoder's rule: only turns of the user and tasks lead to an answer.
  bool HasTransition(std::size_t index) const {
    if (index + 1 < turns_.size()) {
      const Role next = turns_[index + 1].message.role;
      if (next != Role::kAssistant && next != Role::kLatestReminder) return false;
    }
    const Message& message = turns_[index].message;
    return message.task || message.role == Role::kUser || message.role == Role::kDeveloper;
  }

  // Writes the header of the answer after turn `index`.
  void RenderHeader(std::ptrdiff_t index) {
    out_->Template(kAssistantToken);
    ends_in_reasoning_ =
        thinks_ && (!conversation_.drops_reasoning || index >= conversation_.last_user);
    out_->Template(ends_in_reasoning_ ? kThinkOpenToken : kThinkCloseToken);
  }

  void RenderTask(const TaskToken& task) {
    if (task.task == "action") {
      out_->Template(kAssistantToken);
      out_->Template(thinks_ ? kThinkOpenToken : kThinkCloseToken);
    }
    out_->Template(task.token);
    ends_in_reasoning_ = false;
  }

  void RenderAssistant(std::size_t index) {
    const Message& message = turns_[index].message;
    const bool answers_task = index > 0 && turns_[index - 1].message.task.has_value();
    const bool shows_reasoning =
        thinks_ && !answers_task &&
        (!conversation_.drops_reasoning || Signed(index) > conversation_.last_user);
    ends_in_reasoning_ = false;
    if (message.written && message.written->has_reasoning == shows_reasoning &&
        !message.leave_open) {
      out_->Written(message.written->tokens);
      return;
    }
    if (shows_reasoning) {
      out_->Client(message.reasoning_content);
      const bool has_answer = !message.content.empty() || !message.tool_calls.empty();
      if (options_.continue_reasoning && message.leave_open && index + 1 == turns_.size() &&
          !has_answer) {
        ends_in_reasoning_ = true;
        return;
      }
      out_->Template(kThinkCloseToken);
    }
    out_->Client(message.content);
    if (!message.tool_calls.empty()) {
      out_->Template("\n\n");
      WriteToolCalls(message.tool_calls, out_);
    }
    if (!message.leave_open) out_->Template(kEndOfSentence);
  }

  const Conversation& conversation_;
  const std::vector<Turn>& turns_;
  const EncodeOptions& options_;
  const bool thinks_;
  Writer* const out_;
  bool ends_in_reasoning_ = false;  // after the last turn that was rendered
};

Status CheckTasks(const std::vector<Message>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].task || FindTask(*messages[i].task) != nullptr) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "messages[{}].task: expected one of {}, found \"{}\"", i, TaskNames(),
                     ShortenedUtf8(*messages[i].task, kQuotedBytes));
  }
  return {};
}

}  // namespace

const TaskToken* FindTask(std::string_view task) {
  const auto* found = std::ranges::find(kTaskTokens, task, &TaskToken::task);
  return found == std::end(kTaskTokens) ? nullptr : found;
}

std::string TaskNames() {
  std::string names;
  for (const TaskToken& entry : kTaskTokens) {
    names += names.empty() ? "" : ", ";
    names += entry.task;
  }
  return names;
}

std::string EncodedPrompt::Text() const {
  std::string text;
  for (const PromptSpan& span : spans) text += span.text;
  return text;
}

Result<EncodedPrompt> EncodeChat(ChatRequest request, const EncodeOptions& options,
                                 const PromptProfile& profile) {
  const Result<EffortLevel> effort = FindEffort(profile, options.effort);
  if (!effort) return Unexpected(effort.error());
  Status tasks = CheckTasks(request.context);
  if (tasks) tasks = CheckTasks(request.messages);
  if (!tasks) return Unexpected(tasks.error());

  EncodeOptions effective = options;
  if (!effort->thinks) effective.thinking = ThinkingMode::kChat;
  const bool has_context = !request.context.empty();
  PlaceRequestTools(&request);
  const Conversation conversation = PrepareConversation(request, effective);

  Writer out(options.trust_client_text);
  if (options.add_bos && !has_context) out.Template(kBeginOfSentence);
  Renderer renderer(conversation, effective, &out);
  for (std::size_t i = 0; i < conversation.turns.size(); ++i) {
    if (conversation.turns[i].is_context) continue;
    if (i == 0 && effective.thinking == ThinkingMode::kThinking) out.Template(effort->prefix);
    if (i == 0) renderer.RenderFirstHeader();
    renderer.RenderBody(i);
    renderer.RenderTransition(i);
  }
  if (out.error()) return Unexpected(*out.error());
  EncodedPrompt prompt = {.spans = out.TakeSpans(),
                          .start = {.in_reasoning = renderer.ends_in_reasoning()}};
  const Message* last = conversation.turns.empty() ? nullptr : &conversation.turns.back().message;
  if (last != nullptr && last->role == Role::kAssistant && last->leave_open &&
      !prompt.start.in_reasoning) {
    prompt.start.prefill = last->content;
    prompt.start.has_calls = !last->tool_calls.empty();
  }
  return prompt;
}

}  // namespace fathom::chat
