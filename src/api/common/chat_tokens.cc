#include "api/common/chat_tokens.h"

#include <optional>
#include <string_view>

#include "chat/literals.h"

namespace fathom {
namespace {

void AddToken(const Tokenizer& tokenizer, std::string_view text, std::vector<Token>* tokens) {
  const std::optional<Token> token = tokenizer.Find(text);
  if (token) tokens->push_back(*token);
}

}  // namespace

std::vector<Token> TurnTokens(const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  for (const std::string_view text : kTurnTokens) AddToken(tokenizer, text, &tokens);
  return tokens;
}

void AddChatTokens(const Tokenizer& tokenizer, SamplingParameters* sampling) {
  const std::vector<Token> turns = TurnTokens(tokenizer);
  if (!sampling->ignore_eos) {
    sampling->stop_tokens.insert(sampling->stop_tokens.end(), turns.begin(), turns.end());
  }
  std::vector<Token>& silent = sampling->silent_tokens;
  silent.insert(silent.end(), turns.begin(), turns.end());
  for (const std::string_view text : kControlTokens) AddToken(tokenizer, text, &silent);
  for (const TaskToken& task : kTaskTokens) AddToken(tokenizer, task.token, &silent);
}

}  // namespace fathom
