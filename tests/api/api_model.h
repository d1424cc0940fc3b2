// A model to prepare requests for, without weights: the tokenizer of the embedded model.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api_call.h"
#include "tests/api/fake_constraint.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {

class ApiModelTest : public ::testing::Test {
 protected:
  ApiModelTest() : tokenizer_(*Tokenizer::Load(ProjectPath("models/fairy"))) {
    model_ = {.tokenizer = &tokenizer_,
              .profile = PreviewProfile(),
              .bos = 0,
              .eos = 1,
              .name = "fairy",
              .fingerprint = "fp_test",
              .limits = {.vocab_size = tokenizer_.vocab_size(), .max_context = 2048},
              .compile_constraint = compiler_.Function()};
  }

  std::vector<Token> Tokens(std::string_view text) const {
    return *tokenizer_.Encode(text, SpecialTokens::kParse);
  }

  // Events that generate this text, token by token, and end. Special tokens written in it are
  // tokens. `n_held` tokens late, as where the beginning of a stop string is held back.
  std::vector<StreamEvent> Events(std::string_view text, FinishReason finish,
                                  std::size_t n_held = 0) const {
    std::vector<StreamEvent> events;
    std::vector<std::string> pieces;
    for (const Token token : Tokens(text)) {
      pieces.emplace_back(tokenizer_.TokenBytes(token));
      StreamEvent event = {.token = token, .index = static_cast<std::int64_t>(events.size())};
      if (pieces.size() > n_held) event.text = pieces[pieces.size() - 1 - n_held];
      events.push_back(std::move(event));
    }
    StreamEvent last = {
        .token = 1, .index = static_cast<std::int64_t>(events.size()), .finish = finish};
    if (finish != FinishReason::kStop) last.token = StreamEvent::kNoToken;
    const std::size_t n_told = pieces.size() > n_held ? pieces.size() - n_held : 0;
    for (std::size_t i = n_told; i < pieces.size(); ++i) last.text += pieces[i];
    events.push_back(std::move(last));
    return events;
  }

  const Tokenizer tokenizer_;
  FakeCompiler compiler_;
  ApiModel model_;
};

// 1, 2, 3, ...: ids that are the same in every run. Any thread.
inline RandomBits CountingBits() {
  return [n = std::make_shared<std::atomic<std::uint64_t>>(0)] {
    return ++*n * 0x9E3779B97F4A7C15ULL;
  };
}

}  // namespace fathom::testing
