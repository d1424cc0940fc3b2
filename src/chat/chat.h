// The chat types: what a client says and what the encoder is asked for. Plain values, owned
// strings, all text UTF-8. docs/spec/encoding.md section 3.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace fathom {

enum class Role {
  kSystem,
  kUser,
  kAssistant,
  kTool,            // the result of one tool call; becomes part of a user turn
  kLatestReminder,  // date, place and the like, as the official application sends them
  kDeveloper,       // native meaning: a user turn that is dropped from a thinking history
};

// The names that messages use, in the order of the enum.
inline constexpr std::string_view kRoleNames[] = {
    "system", "user", "assistant", "tool", "latest_reminder", "developer"};

// A call that the assistant made.
struct ToolCall {
  std::string id{};  // may be empty
  std::string name{};
  // The arguments as JSON text. If it is not an object the prompt shows it, as it is, as the one
  // parameter "arguments".
  std::string arguments = "{}";
};

// A function that the model may call.
struct ToolSpec {
  std::string name{};
  // The function object ({"name", "description", "parameters", ...}) exactly as the client sent it:
  // the prompt shows all its keys, in their order.
  std::string function_json{};
};

// A piece of a user turn.
struct ContentBlock {
  enum class Kind { kText, kToolResult };
  Kind kind = Kind::kText;
  std::string text{};
  std::string tool_call_id{};  // kToolResult: which call it answers; may be empty
};

// An assistant turn token by token, as the model wrote it.
struct GeneratedTurn {
  // From behind the think tag to the end-of-sentence token.
  std::vector<Token> tokens{};
  bool has_reasoning = false;  // begins with it, and </think> stands behind it
};

struct Message {
  Role role = Role::kUser;
  std::string content{};
  // User only: if not empty, the turn consists of these and `content` is not used.
  std::vector<ContentBlock> blocks{};
  std::string reasoning_content{};     // assistant: what was thought before the answer
  std::vector<ToolCall> tool_calls{};  // assistant
  // Assistant: stands in the prompt in place of the fields above, wherever the turn is rendered
  // whole and with reasoning if and only if this has some.
  std::optional<GeneratedTurn> written{};
  std::string tool_call_id{};                    // tool: the call that is answered
  std::vector<ToolSpec> tools{};                 // system and developer
  std::optional<std::string> response_format{};  // system and developer: JSON text
  std::optional<std::string> task{};             // one of kTaskTokens; asks for that task's token
  bool wo_eos = false;  // assistant: leave the turn open, to be continued by the model
};

// What EncodeChat turns into a prompt.
struct ChatRequest {
  std::vector<Message> messages{};
  // Earlier messages that are already in the model's context: they decide how the others look, and
  // are not rendered again.
  std::vector<Message> context{};
  // Of the whole request: stand on the first message if that is a system or developer message (in
  // place of its own), else on an empty system message put before it.
  std::vector<ToolSpec> tools{};
  std::optional<std::string> response_format{};  // JSON text
};

enum class ThinkingMode { kChat, kThinking };

struct EncodeOptions {
  ThinkingMode thinking = ThinkingMode::kThinking;
  // Leave the reasoning of earlier turns out. Has no effect where a message offers tools.
  bool drop_thinking = true;
  std::string effort{};  // a name of the profile's table; "" if the client said nothing
  bool add_bos = true;   // begin with the begin-of-sentence token (never with a context)
  // Ours, not the official encoder's: if the last message is an open assistant turn that has
  // reasoning and nothing else, leave the reasoning open too, so that the model goes on thinking.
  bool continue_reasoning = false;
  // Mark the client's text trusted, so that special tokens written in it become tokens, as they do
  // in the official code. Unsafe with text from outside.
  bool trust_client_text = false;
};

}  // namespace fathom
