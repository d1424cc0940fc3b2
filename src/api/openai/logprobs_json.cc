#include "api/openai/logprobs_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity; this is what OpenAI writes for a token that cannot be chosen.
constexpr float kLowestLogprob = -9999;

float Finite(float logprob) { return logprob >= kLowestLogprob ? logprob : kLowestLogprob; }

Json Entry(const TokenLogprob& logprob, const Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.TokenBytes(logprob.token)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", tokenizer.TokenToText(logprob.token)},
          {"logprob", Finite(logprob.logprob)},
          {"bytes", std::move(bytes)}};
}

Json EntryWithTop(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  Json entry = Entry(logprobs.chosen, tokenizer);
  entry["top_logprobs"] = Json::array();
  for (const TokenLogprob& candidate : logprobs.top) {
    entry["top_logprobs"].push_back(Entry(candidate, tokenizer));
  }
  return entry;
}

// {text of the token: logprob}; of several tokens with one text the most probable. The chosen one
// is always among them.
Json TopByText(const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  Json top = Json::object();
  for (const TokenLogprob& candidate : logprobs.top) {
    top.emplace(tokenizer.TokenToText(candidate.token), Finite(candidate.logprob));
  }
  top.emplace(tokenizer.TokenToText(logprobs.chosen.token), Finite(logprobs.chosen.logprob));
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

Json ChatLogprobs::Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                        bool include_reasoning, const Tokenizer& tokenizer) {
  if (!HasLogprobs(answer)) return nullptr;
  Json content = Json::array();
  Json reasoning = Json::array();
  for (; n_written_ < sections.size(); ++n_written_) {
    const TokenLogprobs& logprobs = answer.logprobs[n_written_];
    if (sections[n_written_] == TokenSection::kContent) {
      content.push_back(EntryWithTop(logprobs, tokenizer));
    } else if (sections[n_written_] == TokenSection::kReasoning && include_reasoning) {
      reasoning.push_back(EntryWithTop(logprobs, tokenizer));
    }
  }
  Json json = {{"content", std::move(content)}};
  if (!reasoning.empty()) json["reasoning_content"] = std::move(reasoning);
  return json;
}

Json CompletionLogprobs::Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                              const Tokenizer& tokenizer) {
  if (!HasLogprobs(answer)) return nullptr;
  Json json = {{"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
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
