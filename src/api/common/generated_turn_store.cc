#include "api/common/generated_turn_store.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "api/common/api_answer.h"
#include "base/parse_text.h"
#include "chat/literals.h"
#include "chat/strict_parser.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// An estimate of the nodes and tables around the tokens of a turn.
constexpr std::size_t kTurnOverhead = 256;

// The hashed bytes begin with one of these, so that keys of two kinds differ.
enum class KeyKind : char { kCalls = 'c', kText = 't', kMessage = 'm', kReasoning = 'r' };

// Collects the bytes to hash. Each field follows its length, so that different lists of fields are
// different bytes.
class Fields {
 public:
  explicit Fields(KeyKind kind) : bytes_(1, static_cast<char>(kind)) {}

  Fields& Add(std::string_view field) {
    AddNumber(field.size());
    bytes_ += field;
    return *this;
  }

  Fields& AddNumber(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(number >> shift));
    }
    return *this;
  }

  Fields& AddKey(const TurnKey& key) { return AddNumber(key.low).AddNumber(key.high); }

  Fields& AddCalls(const std::vector<ToolCall>& calls) {
    AddNumber(calls.size());
    for (const ToolCall& call : calls) {
      Add(call.id).Add(call.name).Add(CanonicalArguments(call.arguments));
    }
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

constexpr std::string_view kBlockOpen = "<｜DSML｜tool_calls>";
constexpr std::string_view kBlockClose = "</｜DSML｜tool_calls>";
constexpr std::string_view kInvokeClose = "</｜DSML｜invoke>";

// Returns true if the only special tokens are one </think>, with reasoning, and the tokens of
// calls.
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

// Returns the text that the format requires between `text` and the end of the turn. An answer ends
// with its last call.
std::string_view EndOfBlock(std::string_view text) {
  constexpr std::string_view kLine = "\n</｜DSML｜tool_calls>";
  if (text.ends_with(kInvokeClose)) return kLine;
  if (text.ends_with("\n") && text.substr(0, text.size() - 1).ends_with(kInvokeClose)) {
    return kBlockClose;
  }
  return "";
}

// Replaces the newlines before the calls by two, as the strict parser requires. Other spellings are
// equivalent: the client saw none of these characters.
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

std::optional<TurnKey> TurnKeys::OfCalls(const Message& turn) const {
  const auto has_no_id = [](const ToolCall& call) { return call.id.empty(); };
  if (std::any_of(turn.tool_calls.begin(), turn.tool_calls.end(), has_no_id)) return std::nullopt;
  Fields fields(KeyKind::kCalls);
  fields.Add(WithoutBlankEnds(turn.content)).AddCalls(turn.tool_calls);
  return Hash(fields.bytes());
}

TurnKey TurnKeys::OfText(const TurnKey& conversation, const Message& turn) const {
  Fields fields(KeyKind::kText);
  fields.AddKey(conversation).Add(WithoutBlankEnds(turn.content));
  return Hash(fields.bytes());
}

TurnKey TurnKeys::Extend(const TurnKey& conversation, const Message& message) const {
  Fields fields(KeyKind::kMessage);
  fields.AddKey(conversation).AddNumber(static_cast<std::uint64_t>(message.role));
  const bool is_turn = message.role == Role::kAssistant;
  fields.Add(is_turn ? WithoutBlankEnds(message.content) : std::string_view(message.content));
  fields.AddNumber(message.blocks.size());
  for (const ContentBlock& block : message.blocks) {
    fields.AddNumber(static_cast<std::uint64_t>(block.kind))
        .Add(block.text)
        .Add(block.tool_call_id);
  }
  fields.Add(message.tool_call_id).AddCalls(message.tool_calls);
  return Hash(fields.bytes());
}

TurnKey TurnKeys::OfReasoning(std::string_view reasoning) const {
  return Hash(Fields(KeyKind::kReasoning).Add(WithoutBlankEnds(reasoning)).bytes());
}

TurnKey TurnKeys::Hash(std::string_view bytes) const {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed_);
  return {.low = hash.low64, .high = hash.high64};
}

std::string CanonicalArguments(std::string_view arguments) {
  const Result<JsonValue> json = ParseJson(arguments);
  return json ? CanonicalJson(*json) : std::string(arguments);
}

GeneratedTurnStore::GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes,
                                       const RandomBits& random_bits)
    : scope_(scope), keys_(random_bits()), turns_(max_bytes) {}

OpenConversation GeneratedTurnStore::Recall(std::vector<Message>* messages) {
  OpenConversation conversation;
  for (Message& message : *messages) {
    if (message.role == Role::kAssistant && !message.leave_open) {
      const bool is_found = RecallTurn(conversation, &message);
      if (is_found && !message.tool_calls.empty()) conversation.is_named = true;
    }
    conversation.key = keys_.Extend(conversation.key, message);
  }
  return conversation;
}

std::optional<TurnKey> GeneratedTurnStore::FindKey(const OpenConversation& conversation,
                                                   const Message& turn) const {
  if (!turn.tool_calls.empty()) return keys_.OfCalls(turn);
  if (scope_ != ReplayScope::kAll && !conversation.is_named) return std::nullopt;
  return keys_.OfText(conversation.key, turn);
}

bool GeneratedTurnStore::RecallTurn(const OpenConversation& conversation, Message* message) {
  const std::optional<TurnKey> key = FindKey(conversation, *message);
  if (!key) return false;
  const bool has_reasoning = !WithoutBlankEnds(message->reasoning_content).empty();
  const TurnKey reasoning = keys_.OfReasoning(message->reasoning_content);
  const std::lock_guard lock(mutex_);
  const Turn* turn = turns_.Use(*key);
  if (turn == nullptr) return false;
  if (!has_reasoning || turn->reasoning == reasoning) message->written = turn->written;
  return true;
}

void GeneratedTurnStore::Remember(const OpenConversation& conversation, const Message& answer,
                                  GeneratedTurn turn) {
  const std::optional<TurnKey> key = FindKey(conversation, answer);
  if (!key) return;
  const TurnKey reasoning = keys_.OfReasoning(answer.reasoning_content);
  const std::size_t bytes = kTurnOverhead + turn.tokens.size() * sizeof(Token);
  const std::lock_guard lock(mutex_);
  turns_.Put(*key, {.written = std::move(turn), .reasoning = reasoning}, bytes);
}

std::size_t GeneratedTurnStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return turns_.bytes();
}

std::optional<GeneratedTurn> MakeWrittenTurn(const CollectedAnswer& collected,
                                             bool starts_in_reasoning, const Tokenizer& tokenizer) {
  const std::optional<Token> end = tokenizer.Find(kEndOfSentence);
  const bool is_whole = collected.finish == FinishReason::kStop && !collected.stop_token &&
                        collected.answer.finish_reason != ChatFinishReason::kLength;
  if (!end || !is_whole) return std::nullopt;
  std::vector<Token> tokens = collected.tokens;
  // A token that begins another turn also ends an answer; prompts have `end` in its place.
  if (!tokens.empty() && (tokens.back() == *end || collected.ends_at_turn)) tokens.pop_back();
  if (!HasTokensOfATurn(tokens, starts_in_reasoning, tokenizer)) return std::nullopt;
  Result<std::string> text = tokenizer.Decode(tokens);
  if (!text) return std::nullopt;
  if (!collected.answer.tool_calls.empty()) {
    const std::string_view closing = EndOfBlock(*text);
    if (!AppendTokens(closing, tokenizer, &tokens)) return std::nullopt;
    *text += closing;
  }
  if (!Says(*std::move(text), starts_in_reasoning, collected.answer)) return std::nullopt;
  tokens.push_back(*end);
  return GeneratedTurn{.tokens = std::move(tokens), .has_reasoning = starts_in_reasoning};
}

void RememberTurns(const ApiAnswer& answer) {
  const ApiCall& call = answer.call();
  GeneratedTurnStore* turns = answer.model().turns;
  if (turns == nullptr || !call.conversation) return;
  for (const AnswerCollector& choice : answer.choices()) {
    std::optional<GeneratedTurn> turn = MakeWrittenTurn(
        choice.collected(), call.answers.parser.starts_in_reasoning, *answer.model().tokenizer);
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

}  // namespace fathom::api
