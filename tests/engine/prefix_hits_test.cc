// The part of a prompt found in the prefix cache: all whole blocks before its last token, from the
// first block on, also while another request is still reading them.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/engine/core_fixture.h"

namespace fathom::testing {
namespace {

class PrefixHits : public CoreFixture, public ::testing::Test {
 protected:
  void SetUp() override {
    Make({.limits = {.vocab_size = kVocabulary,
                     .max_sequences = 3,
                     .max_context = 2'000,
                     .max_batch_tokens = 200,
                     .max_logit_rows = 8,
                     .rollback_tokens = 8}});
  }
};

TEST_F(PrefixHits, AnIdenticalPromptHitsAllWholeBlocksBeforeItsLastToken) {
  std::int64_t kind = 0;
  for (const std::int64_t n : {1, 2, 127, 128, 129, 130, 255, 256, 257, 384, 385, 600}) {
    const std::vector<Token> prompt = Text(n, ++kind);
    TokenStream first = Submit(prompt, 1);
    RunAll();
    TokenStream second = Submit(prompt, 1);
    RunAll();
    EXPECT_EQ(Answer(first), Answer(second));
    EXPECT_EQ(first.stats().cached_tokens, 0) << n;
    EXPECT_EQ(second.stats().cached_tokens, (n - 1) / 128 * 128) << n;
  }
}

TEST_F(PrefixHits, AlsoWhileTheFirstIsRunning) {
  for (const std::int64_t n : {100, 128, 129, 257, 700}) {
    const std::vector<Token> prompt = Text(n, n);
    TokenStream first = Submit(prompt, 40);
    TokenStream second = Submit(prompt, 40);
    core_->Step();
    TokenStream third = Submit(prompt, 40);
    RunAll();
    const std::vector<Token> answer = Answer(first);
    EXPECT_EQ(answer, Answer(second));
    EXPECT_EQ(answer, Answer(third));
    EXPECT_EQ(first.stats().cached_tokens, 0) << n;
    EXPECT_EQ(second.stats().cached_tokens, (n - 1) / 128 * 128) << n;
    EXPECT_EQ(third.stats().cached_tokens, (n - 1) / 128 * 128) << n;
  }
}

TEST_F(PrefixHits, AClearedCacheHasOnlyWhatRunningRequestsUse) {
  const std::vector<Token> prompt = Text(600);
  TokenStream first = Submit(prompt, 1);
  RunAll();
  core_->ClearPrefixCache();
  TokenStream second = Submit(prompt, 40);
  TokenStream other = Submit(Text(300, 1), 1);
  for (int step = 0; step < 6; ++step) core_->Step();
  core_->ClearPrefixCache();
  EXPECT_TRUE(core_->caches().IsConsistent());
  TokenStream third = Submit(prompt, 1);
  TokenStream other_again = Submit(Text(300, 1), 1);
  RunAll();
  EXPECT_EQ(second.stats().cached_tokens, 0) << "cleared";
  EXPECT_EQ(third.stats().cached_tokens, 512) << "the second request was running";
  EXPECT_EQ(other_again.stats().cached_tokens, 0) << "its first had ended";
  EXPECT_EQ(Answer(first), Answer(third));
  EXPECT_EQ(Answer(other), Answer(other_again));
  EXPECT_TRUE(core_->caches().IsConsistent());
}

// A chat: what was read and what was answered is the beginning of the next prompt.
TEST_F(PrefixHits, ASecondTurnComputesAtMostABlockAndWhatIsNew) {
  std::vector<Token> prompt = Text(90);
  for (int turn = 0; turn < 8; ++turn) {
    const auto n_known = std::ssize(prompt);
    TokenStream stream = Submit(prompt, 70);
    RunAll();
    const std::vector<Token> answer = Answer(stream);
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    const auto n_old = std::ssize(prompt);
    const std::vector<Token> question = Text(33, turn);
    prompt.insert(prompt.end(), question.begin(), question.end());
    TokenStream next = Submit(prompt, 1);
    RunAll();
    const std::int64_t computed = std::ssize(prompt) - next.stats().cached_tokens;
    EXPECT_LE(computed, 128 + std::ssize(question)) << "after " << n_known;
    EXPECT_GE(next.stats().cached_tokens, (n_old - 1) / 128 * 128);
  }
}

// If memory suffices, a prompt that shares any number of blocks finds them all.
TEST_F(PrefixHits, ASharedBeginningIsHitAtEveryBlock) {
  const std::vector<Token> text = Text(1'000);
  TokenStream first = Submit(text, 1);
  RunAll();
  for (std::int64_t n_shared = 0; n_shared <= 900; n_shared += 100) {
    std::vector<Token> prompt(text.begin(), text.begin() + n_shared);
    prompt.insert(prompt.end(), 60, static_cast<Token>(3));
    TokenStream stream = Submit(prompt, 1);
    RunAll();
    EXPECT_EQ(stream.stats().cached_tokens, n_shared / 128 * 128) << n_shared;
  }
}

// Neither cached tokens nor the steps that a request takes tell what others have asked.
TEST_F(PrefixHits, OnlyRequestsOfTheSameSaltShareBlocks) {
  const std::vector<Token> prompt = Text(500);
  const auto submit = [&](const char* salt) {
    return Submit({.prompt = prompt, .sampling = {.seed = 1, .max_tokens = 3}, .cache_salt = salt});
  };
  TokenStream plain = submit("");
  TokenStream running = submit("a");
  RunAll();
  const std::vector<Token> answer = Answer(plain);
  EXPECT_EQ(running.stats().cached_tokens, 0) << "while another computes the same text";
  EXPECT_EQ(Answer(running), answer);
  for (const auto& [salt, n_cached] :
       {std::pair("", 384), std::pair("a", 384), std::pair("b", 0), std::pair("b", 384)}) {
    TokenStream stream = submit(salt);
    RunAll();
    EXPECT_EQ(stream.stats().cached_tokens, n_cached) << salt;
    EXPECT_EQ(Answer(stream), answer) << salt;
  }
}

TEST_F(PrefixHits, ChoicesShareTheirPrompt) {
  TokenStream stream = Submit(Text(300), 5, 3);
  RunAll();
  EXPECT_EQ(model_->n_tokens, 300 + 3 * 4);
}

}  // namespace
}  // namespace fathom::testing
