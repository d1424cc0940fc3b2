#include "api/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/character_count.h"
#include "base/check.h"

namespace fathom::api {
namespace {

// JSON has no infinity; OpenAI writes this value for a token that cannot be chosen.
constexpr float kLowestLogprob = -9999;

float Finite(float logprob) { return logprob >= kLowestLogprob ? logprob : kLowestLogprob; }

JsonValue Entry(const TokenLogprob& logprob, const TokenNames& names) {
  JsonValue bytes = JsonValue::Array();
  for (const char byte : names.tokenizer.TokenBytes(logprob.token)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", names(logprob.token)},
          {"logprob", Finite(logprob.logprob)},
          {"bytes", std::move(bytes)}};
}

JsonValue EntryWithTop(const TokenLogprobs& logprobs, const TokenNames& names) {
  JsonValue entry = Entry(logprobs.chosen, names);
  entry["top_logprobs"] = JsonValue::Array();
  for (const TokenLogprob& candidate : logprobs.top) {
    entry["top_logprobs"].push_back(Entry(candidate, names));
  }
  return entry;
}

std::span<const TokenLogprob> Best(const TokenLogprobs& logprobs, int n_top) {
  return std::span(logprobs.top)
      .first(std::min(logprobs.top.size(), static_cast<std::size_t>(n_top)));
}

// Returns {name of the token: logprob}; tokens with equal names share the most probable value. The
// chosen token is always present.
JsonValue TopByName(const TokenLogprobs& logprobs, int n_top, const TokenNames& names) {
  JsonValue top = JsonValue::Object();
  const auto add = [&](const TokenLogprob& logprob) {
    const std::string name = names(logprob.token);
    if (top.Find(name) == nullptr) top[name] = Finite(logprob.logprob);
  };
  for (const TokenLogprob& candidate : Best(logprobs, n_top)) {
    add(candidate);
  }
  add(logprobs.chosen);
  return top;
}

bool HasLogprobs(const CollectedAnswer& answer) {
  Check(answer.logprobs.empty() || answer.logprobs.size() == answer.tokens.size(),
        "log probabilities of some tokens only");
  return !answer.logprobs.empty();
}

}  // namespace

std::string TokenNames::operator()(Token token) const {
  return by_id ? fmt::format("token_id:{}", token) : tokenizer.TokenToText(token);
}

JsonValue ChatLogprobs::Next(const CollectedAnswer& answer, std::span<const TokenSection> sections,
                             bool include_reasoning, const TokenNames& names) {
  if (!HasLogprobs(answer)) return nullptr;
  JsonValue content = JsonValue::Array();
  JsonValue reasoning = JsonValue::Array();
  for (; n_written_ < sections.size(); ++n_written_) {
    const TokenLogprobs& logprobs = answer.logprobs[n_written_];
    if (sections[n_written_] == TokenSection::kContent) {
      content.push_back(EntryWithTop(logprobs, names));
    } else if (sections[n_written_] == TokenSection::kReasoning && include_reasoning) {
      reasoning.push_back(EntryWithTop(logprobs, names));
    }
  }
  JsonValue json = {{"content", std::move(content)}};
  if (!reasoning.items().empty()) json["reasoning_content"] = std::move(reasoning);
  return json;
}

JsonValue CompletionLogprobs::Empty() {
  return {{"tokens", JsonValue::Array()},
          {"token_logprobs", JsonValue::Array()},
          {"top_logprobs", JsonValue::Array()},
          {"text_offset", JsonValue::Array()}};
}

void CompletionLogprobs::Add(Token token, JsonValue logprob, JsonValue top,
                             const TokenNames& names) {
  json_["tokens"].push_back(names(token));
  json_["token_logprobs"].push_back(std::move(logprob));
  json_["top_logprobs"].push_back(std::move(top));
  json_["text_offset"].push_back(n_characters_);
  std::string text;
  utf8_.Push(names.tokenizer.TokenBytes(token), text);
  n_characters_ += CountCharacters(text);
}

void CompletionLogprobs::AddPrompt(const ScoredPrompt& prompt, int n_top, const TokenNames& names) {
  for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
    if (i == 0 || i > prompt.logprobs.size()) {
      Add(prompt.tokens[i], nullptr, nullptr, names);
    } else {
      const TokenLogprobs& logprobs = prompt.logprobs[i - 1];
      Add(prompt.tokens[i], Finite(logprobs.chosen.logprob), TopByName(logprobs, n_top, names),
          names);
    }
  }
}

JsonValue CompletionLogprobs::Next(const CollectedAnswer& answer,
                                   std::span<const TokenSection> sections,
                                   const TokenNames& names) {
  for (; HasLogprobs(answer) && n_written_ < sections.size(); ++n_written_) {
    const bool is_cut = answer.finish == FinishReason::kStopString;
    if (is_cut && sections[n_written_] != TokenSection::kContent) continue;
    const TokenLogprobs& logprobs = answer.logprobs[n_written_];
    Add(logprobs.chosen.token, Finite(logprobs.chosen.logprob),
        TopByName(logprobs, kMaxTopLogprobs, names), names);
  }
  return std::exchange(json_, Empty());
}

JsonValue PromptLogprobsJson(std::span<const TokenLogprobs> logprobs, int n_top,
                             const Tokenizer& tokenizer) {
  JsonValue list = JsonValue::Array({nullptr});
  for (const TokenLogprobs& of_token : logprobs) {
    JsonValue entry = JsonValue::Object();
    const auto add = [&](const TokenLogprob& logprob, std::int64_t rank) {
      const std::string id = fmt::format("{}", logprob.token);
      if (entry.Find(id) != nullptr) return;
      entry[id] = {{"logprob", Finite(logprob.logprob)},
                   {"rank", rank},
                   {"decoded_token", tokenizer.TokenToText(logprob.token)}};
    };
    add(of_token.chosen, of_token.rank);
    std::int64_t rank = 0;
    for (const TokenLogprob& candidate : Best(of_token, n_top)) {
      add(candidate, ++rank);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace fathom::api
