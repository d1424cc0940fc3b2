#include "api/openai/logprobs_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "json/json_value.h"

namespace fathom {
namespace {

// JSON has no infinity; OpenAI writes this value for a token that cannot be chosen.
constexpr float kLowestLogprob = -9999;

float Finite(float logprob) { return logprob >= kLowestLogprob ? logprob : kLowestLogprob; }

JsonValue Entry(const TokenLogprob& logprob, const Tokenizer& tokenizer) {
  JsonValue bytes = JsonValue::Array();
  for (const char byte : tokenizer.TokenBytes(logprob.token)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", tokenizer.TokenToText(logprob.token)},
          {"logprob", Finite(logprob.logprob)},
          {"bytes", std::move(bytes)}};
}

JsonValue EntryWithTop(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  JsonValue entry = Entry(logprobs.chosen, tokenizer);
  entry["top_logprobs"] = JsonValue::Array();
  for (const TokenLogprob& candidate : logprobs.top) {
    entry["top_logprobs"].push_back(Entry(candidate, tokenizer));
  }
  return entry;
}

// Returns {text of the token: logprob}; tokens with the same text share the most probable value.
// The chosen token is always present.
JsonValue TopByText(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  JsonValue top = JsonValue::Object();
  const auto add = [&](const TokenLogprob& logprob) {
    const std::string text = tokenizer.TokenToText(logprob.token);
    if (top.Find(text) == nullptr) top[text] = Finite(logprob.logprob);
  };
  for (const TokenLogprob& candidate : logprobs.top) {
    add(candidate);
  }
  add(logprobs.chosen);
  return top;
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

bool HasLogprobs(const CollectedAnswer& answer) {
  Check(answer.logprobs.empty() || answer.logprobs.size() == answer.tokens.size(),
        "log probabilities of some tokens only");
  return !answer.logprobs.empty();
}

}  // namespace

JsonValue ChatLogprobs::Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                             bool include_reasoning, const Tokenizer& tokenizer) {
  if (!HasLogprobs(answer)) return nullptr;
  JsonValue content = JsonValue::Array();
  JsonValue reasoning = JsonValue::Array();
  for (; n_written_ < sections.size(); ++n_written_) {
    const TokenLogprobs& logprobs = answer.logprobs[n_written_];
    if (sections[n_written_] == TokenSection::kContent) {
      content.push_back(EntryWithTop(logprobs, tokenizer));
    } else if (sections[n_written_] == TokenSection::kReasoning && include_reasoning) {
      reasoning.push_back(EntryWithTop(logprobs, tokenizer));
    }
  }
  JsonValue json = {{"content", std::move(content)}};
  if (!reasoning.items().empty()) json["reasoning_content"] = std::move(reasoning);
  return json;
}

JsonValue CompletionLogprobs::Next(const CollectedAnswer& answer,
                                   std::span<const TokenSection> sections,
                                   const Tokenizer& tokenizer) {
  if (!HasLogprobs(answer)) return nullptr;
  JsonValue json = {{"tokens", JsonValue::Array()},
                    {"token_logprobs", JsonValue::Array()},
                    {"top_logprobs", JsonValue::Array()},
                    {"text_offset", JsonValue::Array()}};
  std::string text;
  for (; n_written_ < sections.size(); ++n_written_) {
    if (sections[n_written_] != TokenSection::kContent) continue;
    const TokenLogprobs& logprobs = answer.logprobs[n_written_];
    json["tokens"].push_back(tokenizer.TokenToText(logprobs.chosen.token));
    json["token_logprobs"].push_back(Finite(logprobs.chosen.logprob));
    json["top_logprobs"].push_back(TopByText(logprobs, tokenizer));
    json["text_offset"].push_back(n_characters_);
    text.clear();
    utf8_.Push(tokenizer.TokenBytes(answer.tokens[n_written_]), text);
    n_characters_ += CountCharacters(text);
  }
  return json;
}

}  // namespace fathom
