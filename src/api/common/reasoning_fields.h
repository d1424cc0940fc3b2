// Reads the fields of a chat that decide whether the model reasons, how hard, and for how long:
// equal on all chat APIs. docs/spec/encoding.md section 5.
#pragma once

#include <cstdint>
#include <optional>

#include "chat/chat.h"
#include "json/field_reader.h"

namespace fathom::api {

// Sets thinking, effort and drop_thinking of `encoding`, which contains the defaults. Returns
// whether the client chose anything about the reasoning.
//
// Whether to reason: the first of these fields that is present decides.
//   thinking      an object with a type, or the type: "enabled" or true, "disabled" or false,
//                 "adaptive" or "auto" (the model chooses, and reasons)
//   enable_thinking, think (Ollama; also an effort), reasoning.enabled,
//   chat_template_kwargs.thinking, chat_template_kwargs.enable_thinking       true or false
// How hard: the first of reasoning_effort, reasoning.effort, output_config.effort and
// chat_template_kwargs.reasoning_effort. If no field decides whether to reason, an effort does:
// "none" means no reasoning. Fields that turn reasoning off override every effort; fields that turn
// it on make "none" the default effort.
bool ReadReasoningFields(FieldReader& reader, EncodeOptions* encoding);

// Reads the most tokens of the reasoning, under any of the names that servers have for it:
// thinking_token_budget (vLLM), thinking_budget_tokens (llama.cpp), thinking_budget,
// reasoning_budget, thinking.budget_tokens (Anthropic), reasoning.max_tokens (OpenRouter). The
// first one decides; -1 means no limit, 0 ends the reasoning at its beginning.
inline constexpr std::int64_t kNoBudget = -1;
std::optional<std::int64_t> ReadReasoningBudget(FieldReader& reader);

}  // namespace fathom::api
