// A fixture for tests of an EngineCore on a FakeModel: starts the core, submits texts, runs steps,
// reads the answers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "tests/engine/fake_model.h"

namespace fathom::testing {

class CoreFixture {
 protected:
  static constexpr std::int64_t kVocabulary = 50;

  // Anew, with an empty cache.
  void Make(const FakeModelOptions& options) {
    core_.reset();
    model_ = std::make_unique<FakeModel>(options);
    metrics_ = std::make_unique<EngineMetrics>();
    auto core = EngineCore::Create(
        *model_, {.target_step_seconds = 0, .pauses_each_layer = pauses_each_layer_}, *metrics_);
    ASSERT_TRUE(core) << core.error().message;
    core_ = *std::move(core);
  }

  // Texts of different kinds differ from the first block on.
  static std::vector<Token> Text(std::int64_t n, std::int64_t kind = 0) {
    std::vector<Token> text;
    for (std::int64_t i = 0; i < n; ++i) {
      text.push_back(static_cast<Token>((i * i + 7 * i * kind + 11 * kind) % kVocabulary));
    }
    return text;
  }

  TokenStream Submit(std::vector<Token> prompt, std::int64_t max_tokens, int n_choices = 1) {
    return Submit({.prompt = std::move(prompt),
                   .sampling = {.seed = 1, .max_tokens = max_tokens},
                   .n_choices = n_choices});
  }
  TokenStream Submit(Request request) {
    auto state = core_->Prepare(std::move(request), waker_);
    EXPECT_TRUE(state) << (state ? "" : state.error().message);
    TokenStream stream((*state)->stream);
    core_->Add(*std::move(state));
    return stream;
  }

  void RunAll() {
    while (core_->Step() == StepOutcome::kRan) {
      ASSERT_TRUE(core_->caches().IsConsistent());
    }
  }

  // The tokens of an answer; the stream has ended.
  static std::vector<Token> Answer(TokenStream& stream) {
    std::vector<Token> tokens;
    StreamEvent event;
    while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
      if (event.token != StreamEvent::kNoToken) tokens.push_back(event.token);
    }
    return tokens;
  }

  bool pauses_each_layer_ = true;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<EngineMetrics> metrics_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::unique_ptr<EngineCore> core_;
};

}  // namespace fathom::testing
