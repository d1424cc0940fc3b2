// The fixed strings of the V4 chat format (docs/spec/encoding.md sections 2, 4, 6). They are part
// of the format: the model was trained with these bytes. Tests compare them with the published
// literals.
#pragma once

#include <string_view>

namespace fathom::chat {

// Tokens. The bar is U+FF5C, the low line in the sentence tokens U+2581.
inline constexpr std::string_view kBeginOfSentence = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUserToken = "<｜User｜>";
inline constexpr std::string_view kAssistantToken = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminderToken = "<｜latest_reminder｜>";
inline constexpr std::string_view kThinkOpenToken = "<think>";
inline constexpr std::string_view kThinkCloseToken = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
// Mark the text before and after a gap that the model fills (docs/spec/tokenizer.md 7).
inline constexpr std::string_view kFimBegin = "<｜fim▁begin｜>";
inline constexpr std::string_view kFimHole = "<｜fim▁hole｜>";
inline constexpr std::string_view kFimEnd = "<｜fim▁end｜>";

// Tokens that begin a turn of the conversation: an answer ends before them.
inline constexpr std::string_view kTurnTokens[] = {kBeginOfSentence, kUserToken, kAssistantToken};
// Other tokens that separate texts and are never part of a text.
inline constexpr std::string_view kControlTokens[] = {kEndOfSentence, kLatestReminderToken,
                                                      kFimBegin, kFimHole, kFimEnd};

// The tasks of user messages, and the token that each task adds.
struct TaskToken {
  std::string_view task;
  std::string_view token;
};
inline constexpr TaskToken kTaskTokens[] = {
    {"action", "<｜action｜>"}, {"query", "<｜query｜>"}, {"authority", "<｜authority｜>"},
    {"domain", "<｜domain｜>"}, {"title", "<｜title｜>"}, {"read_url", "<｜read_url｜>"},
};

// Delimit a tool result in a user turn, and the blocks of a turn.
inline constexpr std::string_view kToolResultOpen = "<tool_result>";
inline constexpr std::string_view kToolResultClose = "</tool_result>";
inline constexpr std::string_view kBlockJoiner = "\n\n";
// Enclose a system text in the middle of a conversation, which becomes text of a user turn.
inline constexpr std::string_view kSystemReminderOpen = "<system-reminder>\n";
inline constexpr std::string_view kSystemReminderClose = "\n</system-reminder>";
inline constexpr std::string_view kToolSchemaJoiner = "\n";

// The text of a system message about tools, around their schemas, and about the form of the reply.
inline constexpr std::string_view kToolsBlockPrefix = "\n\n";
inline constexpr std::string_view kToolsBlockBefore =
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools"
    " by writing a \"<｜DSML｜tool_calls>\" block like the following:\n"
    "\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\""
    " string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n"
    "\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types"
    " (numbers, booleans, arrays, objects), pass the value in JSON format and set"
    " `string=\"false\"`.\n"
    "\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete"
    " reasoning inside <think>...</think> BEFORE any tool calls or final response.\n"
    "\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n";
inline constexpr std::string_view kToolsBlockAfter =
    "\n"
    "\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to invoke tool"
    " calls.\n";
inline constexpr std::string_view kResponseFormatPrefix =
    "\n"
    "\n"
    "## Response Format:\n"
    "\n"
    "You MUST strictly adhere to the following schema to reply:\n";
// Asks for a JSON object without a particular schema.
inline constexpr std::string_view kJsonObjectFormat =
    "\n"
    "\n"
    "You are a helpful assistant designed to output JSON.\n"
    "## Response Format:\n"
    "\n"
    "Reply with JSON object ONLY.";

}  // namespace fathom::chat
