#include "api/common/forced_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "chat/literals.h"

namespace fathom {

Result<ForcedCall> MakeForcedCall(std::span<const ToolSpec> tools, bool after_reasoning,
                                  const Tokenizer& tokenizer, std::int64_t max_context) {
  const std::optional<Token> think_close = tokenizer.Find(kThinkCloseToken);
  if (!think_close) {
    return MakeError(ErrorCode::kUnsupported,
                     "tool_choice: this model has no token for the end of its reasoning");
  }
  ForcedCall forced = {.openers = {},
                       .after_reasoning = after_reasoning,
                       .think_close = *think_close,
                       .max_context = max_context};
  for (const ToolSpec& tool : tools) {
    const EncodedPrompt opener = RenderCallOpening(tool.name);
    Result<std::vector<Token>> tokens = EncodePrompt(tokenizer, opener);
    if (!tokens) return Unexpected(tokens.error());
    ForcedCall::Opener entry = {.text = opener.Text(), .tokens = *std::move(tokens)};
    const bool is_known =
        std::find(forced.openers.begin(), forced.openers.end(), entry) != forced.openers.end();
    if (!is_known) forced.openers.push_back(std::move(entry));
  }
  return forced;
}

}  // namespace fathom
