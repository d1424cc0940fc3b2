// One request to a fake model: its prompt, its expected answer, and the events of its stream.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/token_stream.h"
#include "model/language_model.h"
#include "tests/engine/fake_model.h"
#include "tests/engine/reference_answer.h"

namespace fathom::testing {

inline constexpr std::int64_t kVocabulary = 50;
inline constexpr ModelLimits kLimits = {.vocab_size = kVocabulary,
                                        .max_sequences = 2,
                                        .max_context = 400,
                                        .max_batch_tokens = 16,
                                        .max_logit_rows = 8,
                                        .rollback_tokens = 8};

inline std::vector<Token> MakePrompt(int count, Token first = 3) {
  std::vector<Token> prompt;
  for (int i = 0; i < count; ++i) {
    prompt.push_back((first + 7 * i) % static_cast<Token>(kVocabulary));
  }
  return prompt;
}

// Token 0 is "a", 1 is "b", ... 26 "a" again.
inline std::string_view Letter(Token token) {
  return std::string_view("abcdefghijklmnopqrstuvwxyz")
      .substr(static_cast<std::size_t>(token % 26), 1);
}

// The expected answer, computed without any part of the engine except the sampler.
inline ReferenceAnswer Expected(const Request& request, std::vector<Token> eos_tokens = {},
                                std::int64_t sliding_window = 128) {
  return AnswerAlone({.logits =
                          [=](std::span<const Token> tokens) {
                            return FakeModel::Expected(tokens, kVocabulary, sliding_window);
                          },
                      .eos_tokens = std::move(eos_tokens),
                      .token_bytes = Letter,
                      .max_context = kLimits.max_context},
                     request, 0);
}

// All events of one choice.
struct Answer {
  std::vector<Token> tokens;
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::optional<FinishReason> finish;
  std::optional<std::size_t> stop_string;
  std::string error;
  int n_finished = 0;
  RequestStats stats;

  void Add(const StreamEvent& event) {
    EXPECT_EQ(event.index, std::ssize(tokens));
    EXPECT_EQ(event.choice, 0u);
    text += event.text;
    if (event.token != StreamEvent::kNoToken) {
      tokens.push_back(event.token);
    }
    if (event.logprobs) {
      logprobs.push_back(*event.logprobs);
    }
    if (event.finish) {
      finish = event.finish;
      stop_string = event.stop_string;
      ++n_finished;
    }
    if (event.error) {
      error = event.error->message;
    }
  }
};

}  // namespace fathom::testing
