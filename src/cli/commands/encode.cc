#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "chat/messages.h"
#include "chat/profile.h"
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/terminal/output.h"
#include "runtime/model_files.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {
namespace {

Result<ChatRequest> ReadRequest(const EncodeCommand& command) {
  const Result<std::string> json = ReadInput(command.messages);
  if (!json) return Unexpected(json.error());
  const std::string name = command.messages == "-" ? "standard input" : command.messages;
  Result<ChatRequest> request =
      ParseChatRequest(*json, {.developer_is_system = !command.native_developer});
  if (!request) return MakeError(request.error().code, "{}: {}", name, request.error().message);
  if (!command.tools.empty()) {
    const Result<std::string> tools_json = ReadInput(command.tools);
    if (!tools_json) return Unexpected(tools_json.error());
    Result<std::vector<ToolSpec>> tools = ParseTools(*tools_json, command.tools);
    if (!tools) return Unexpected(tools.error());
    request->tools = *std::move(tools);
  }
  return request;
}

}  // namespace

Status RunCommand(const EncodeCommand& command, Log& log) {
  Result<ChatRequest> request = ReadRequest(command);
  if (!request) return Unexpected(request.error());
  const Result<std::filesystem::path> model = FindModel(command.model);
  if (!model) return Unexpected(model.error());
  const Result<PromptProfile> profile = ChooseProfile(command.profile, *model, log);
  if (!profile) return Unexpected(profile.error());

  const EncodeOptions options = {
      .thinking = command.thinking ? ThinkingMode::kThinking : ThinkingMode::kChat,
      .drop_thinking = !command.keep_reasoning,
      .effort = command.effort,
      .add_bos = !command.no_bos,
      .trust_client_text = command.trust_client_text};
  const Result<EncodedPrompt> prompt = EncodeChat(*std::move(request), options, *profile);
  if (!prompt) return Unexpected(prompt.error());
  if (!command.ids) return Print(prompt->Text());

  const Result<Tokenizer> tokenizer = Tokenizer::Load(*model);
  if (!tokenizer) return Unexpected(tokenizer.error());
  const Result<std::vector<Token>> tokens = EncodePrompt(*tokenizer, *prompt);
  if (!tokens) return Unexpected(tokens.error());
  return Print(fmt::format("{}\n", fmt::join(*tokens, " ")));
}

}  // namespace fathom::cli
