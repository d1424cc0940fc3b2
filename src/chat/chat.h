// The chat types: the messages of a client and the options of the encoder. Plain values, owned
// strings, all text UTF-8. docs/spec/encoding.md section 3.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace fathom::chat {

enum class Role {
  kSystem,
  kUser,
  kAssistant,
  kTool,            // the result of one tool call; becomes part of a user turn
  kLatestReminder,  // date, place and similar facts, as the official application sends them
  kDeveloper,       // native meaning: a user turn dropped from a thinking history
};

// The names of the roles in messages, in the order of the enum.
inline constexpr std::string_view kRoleNames[] = {
    "system", "user", "assistant", "tool", "latest_reminder", "developer"};

// A call that the assistant made.
struct ToolCall {
  std::string id{};  // may be empty
  std::string name{};
  // The arguments as JSON text. If the text is not an object, the prompt shows it unchanged as the
  // only parameter, "arguments".
  std::string arguments = "{}";
};

// A function that the model may call.
struct ToolSpec {
  std::string name{};
  // The function object ({"name", "description", "parameters", ...}) exactly as the client sent it:
  // the prompt shows all keys in their order.
  std::string function_json{};
  bool strict = false;  // the arguments of calls must fit the parameters exactly
  // The API defines the parameters, and clients read calls without checking them.
  bool is_published = false;
  std::string path{};  // path of the parameters, or of the text's form, in the request; for errors
  // For a tool that takes one text: the parameter that contains it, and the regular expression for
  // the whole text; "" for any text.
  std::string text_parameter{};
  std::string text_regex{};
  // The prompt does not show the tool with the others: a message shows it once a search has found
  // it, so that the beginning of the prompt stays unchanged.
  bool is_deferred = false;
  // False: no message has shown the tool yet, or one has removed it. Then the model calls it only
  // if the request demands a call of this tool.
  bool is_available = true;
};

// A piece of a user turn.
struct ContentBlock {
  enum class Kind { kText, kToolResult };
  Kind kind = Kind::kText;
  std::string text{};
  std::string tool_call_id{};  // kToolResult: the answered call; may be empty
};

// An assistant turn token by token, as the model wrote it.
struct GeneratedTurn {
  // The tokens after the think tag, up to the end-of-sentence token.
  std::vector<Token> tokens{};
  bool has_reasoning = false;  // begins with reasoning, closed by </think>
};

struct Message {
  Role role = Role::kUser;
  std::string content{};
  // User only: if not empty, the turn consists of these blocks and `content` is not used.
  std::vector<ContentBlock> blocks{};
  std::string reasoning_content{};     // assistant: the reasoning before the answer
  std::vector<ToolCall> tool_calls{};  // assistant
  // Assistant: replaces the fields above in the prompt if the turn is rendered whole, with its
  // reasoning if these tokens have reasoning, and without if they have none.
  std::optional<GeneratedTurn> written{};
  std::string tool_call_id{};                    // tool: id of the answered call
  std::string tool_name{};                       // tool: its name, if a client gives no id
  std::vector<ToolSpec> tools{};                 // system and developer
  std::optional<std::string> response_format{};  // system and developer: JSON text
  bool asks_for_object = false;                  // system: asks for a JSON object of any schema
  std::optional<std::string> task{};             // one of kTaskTokens; adds the token of that task
  bool leave_open = false;  // assistant: leave the turn open, to be continued by the model
};

// The most messages that are read from one request, and the most tool calls. A message of 16 bytes
// in a request takes hundreds of bytes here, a call as many in the prompt, and no context has room
// for more.
inline constexpr std::size_t kMaxMessages = 65'536;

// The most arguments of all tool calls together: one of seven bytes takes hundreds of bytes in the
// prompt.
inline constexpr std::size_t kMaxArguments = 65'536;

// The input of EncodeChat.
struct ChatRequest {
  std::vector<Message> messages{};
  // Earlier messages that are already in the model's context: they affect how later messages are
  // rendered, and are not rendered again.
  std::vector<Message> context{};
  // Tools of the whole request: rendered in the first message if that is a system or developer
  // message (instead of its own tools), otherwise in an empty system message before it.
  std::vector<ToolSpec> tools{};
  std::optional<std::string> response_format{};  // JSON text
  bool asks_for_object = false;                  // see Message::asks_for_object
};

enum class ThinkingMode { kChat, kThinking };

struct EncodeOptions {
  ThinkingMode thinking = ThinkingMode::kThinking;
  // Drops the reasoning of earlier turns. Has no effect if a message offers tools.
  bool drop_thinking = true;
  std::string effort{};  // a name in the profile's table; "": the client did not choose
  bool add_bos = true;   // begin with the begin-of-sentence token (never with a context)
  // If the last message is an open assistant turn without content and calls, leaves its reasoning
  // open, so that the model continues it.
  bool continue_reasoning = true;
  // Begins each turn of the assistant with its header (the Assistant token and a think tag),
  // whatever precedes it. The official encoder writes the header as the end of a user's turn, so
  // that other turns have none.
  bool heads_each_turn = false;
  // With heads_each_turn: ends the prompt with the header of a turn, which the model then writes,
  // unless the last message is open. False: ends so only after a turn that is not the assistant's.
  bool begins_turn = true;
  // Trusts the client's text, so that special tokens in it become tokens, as in the official code.
  // Unsafe for untrusted text.
  bool trust_client_text = false;
};

}  // namespace fathom::chat
