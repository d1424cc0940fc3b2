#include "api/common/generated_turn.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "api/common/turn_key.h"
#include "chat/literals.h"
#include "chat/strict_parser.h"

namespace fathom {
namespace {

constexpr std::string_view kBlockOpen = "<｜DSML｜tool_calls>";
constexpr std::string_view kBlockClose = "</｜DSML｜tool_calls>";
constexpr std::string_view kInvokeClose = "</｜DSML｜invoke>";

// True if the only added tokens are one </think>, with reasoning, and those of calls.
bool HasTokensOfATurn(const std::vector<Token>& tokens, bool has_reasoning,
                      const Tokenizer& tokenizer) {
  const std::optional<Token> think_close = tokenizer.Find(kThinkCloseToken);
  const std::optional<Token> dsml = tokenizer.Find(kDsml);
  std::ptrdiff_t n_closed = 0;
  for (const Token token : tokens) {
    if (token == think_close) {
      ++n_closed;
    } else if (token != dsml && tokenizer.Find(tokenizer.TokenBytes(token)) == token) {
      return false;
    }
  }
  return n_closed == (has_reasoning ? 1 : 0);
}

Status AppendTokens(std::string_view text, const Tokenizer& tokenizer, std::vector<Token>* tokens) {
  const Result<std::vector<Token>> more = tokenizer.Encode(text, SpecialTokens::kParse);
  if (!more) return Unexpected(more.error());
  tokens->insert(tokens->end(), more->begin(), more->end());
  return {};
}

// Returns the generated tokens with the forced texts between them.
Result<std::vector<Token>> AllTokens(const CollectedAnswer& collected, const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  auto next = collected.tokens.begin();
  for (const ForcedPrefix& given : collected.given) {
    const auto until = collected.tokens.begin() + static_cast<std::ptrdiff_t>(given.n_before);
    tokens.insert(tokens.end(), next, until);
    next = until;
    const Status status = AppendTokens(given.text, tokenizer, &tokens);
    if (!status) return Unexpected(status.error());
  }
  tokens.insert(tokens.end(), next, collected.tokens.end());
  return tokens;
}

// Returns what the format requires between `text` and the end of the turn. An answer ends with its
// last call.
std::string_view EndOfBlock(std::string_view text) {
  constexpr std::string_view kLine = "\n</｜DSML｜tool_calls>";
  if (text.ends_with(kInvokeClose)) return kLine;
  if (text.ends_with("\n") && text.substr(0, text.size() - 1).ends_with(kInvokeClose)) {
    return kBlockClose;
  }
  return "";
}

// The strict parser requires two newlines before the calls. Other spellings are equivalent: the
// client saw none of these characters.
std::string WithTwoNewlines(std::string text) {
  const std::size_t block = text.find(kBlockOpen);
  if (block == std::string::npos) return text;
  std::size_t end = block;
  while (end > 0 && text[end - 1] == '\n') --end;
  return text.replace(end, block - end, "\n\n");
}

bool AreSame(const std::vector<ToolCall>& written, const std::vector<ToolCall>& told) {
  return std::equal(written.begin(), written.end(), told.begin(), told.end(),
                    [](const ToolCall& a, const ToolCall& b) {
                      return a.name == b.name &&
                             CanonicalArguments(a.arguments) == CanonicalArguments(b.arguments);
                    });
}

bool Says(std::string text, bool has_reasoning, const Answer& told) {
  text = WithTwoNewlines(std::move(text));
  text += kEndOfSentence;
  const Result<Answer> written =
      ParseStrictly(text, has_reasoning ? ThinkingMode::kThinking : ThinkingMode::kChat);
  return written && written->reasoning_content == told.reasoning_content &&
         written->content == told.content && AreSame(written->tool_calls, told.tool_calls);
}

}  // namespace

std::optional<GeneratedTurn> MakeWrittenTurn(const CollectedAnswer& collected,
                                             bool starts_in_reasoning, const Tokenizer& tokenizer) {
  const std::optional<Token> end = tokenizer.Find(kEndOfSentence);
  const bool is_whole = collected.finish == FinishReason::kStop && !collected.stop_token &&
                        collected.answer.finish_reason != ChatFinishReason::kLength;
  if (!end || !is_whole) return std::nullopt;
  Result<std::vector<Token>> tokens = AllTokens(collected, tokenizer);
  if (!tokens) return std::nullopt;
  if (!tokens->empty() && tokens->back() == *end) tokens->pop_back();
  if (!HasTokensOfATurn(*tokens, starts_in_reasoning, tokenizer)) return std::nullopt;
  Result<std::string> text = tokenizer.Decode(*tokens);
  if (!text) return std::nullopt;
  if (!collected.answer.tool_calls.empty()) {
    const std::string_view closing = EndOfBlock(*text);
    if (!AppendTokens(closing, tokenizer, &*tokens)) return std::nullopt;
    *text += closing;
  }
  if (!Says(*std::move(text), starts_in_reasoning, collected.answer)) return std::nullopt;
  tokens->push_back(*end);
  return GeneratedTurn{.tokens = *std::move(tokens), .has_reasoning = starts_in_reasoning};
}

void RememberTurns(const ApiAnswer& answer) {
  const ApiCall& call = answer.call();
  GeneratedTurnStore* turns = answer.model().turns;
  if (turns == nullptr || !call.conversation) return;
  for (const AnswerCollector& choice : answer.choices()) {
    std::optional<GeneratedTurn> turn = MakeWrittenTurn(
        choice.collected(), call.answers.starts_in_reasoning, *answer.model().tokenizer);
    if (!turn) continue;
    const Answer& told = choice.collected().answer;
    turns->Remember(*call.conversation,
                    {.role = Role::kAssistant,
                     .content = told.content,
                     .reasoning_content = told.reasoning_content,
                     .tool_calls = told.tool_calls},
                    *std::move(turn));
  }
}

}  // namespace fathom
