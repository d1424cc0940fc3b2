// Requests on several data ranks: a text goes to the rank that has cached it, other texts to the
// least loaded rank, and the ranks' parts of a step are about equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/engine/core_fixture.h"

namespace fathom::testing {
namespace {

class EngineOnDataRanks : public CoreFixture, public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { MakeRanks(3); }

  void MakeRanks(std::int64_t slots_of_each, std::int64_t memory_bytes = 0) {
    Make({.limits = {.vocab_size = kVocabulary,
                     .max_sequences = slots_of_each * GetParam(),
                     .max_context = 2'000,
                     .max_batch_tokens = 120 * GetParam(),
                     .max_logit_rows = 16,
                     .rollback_tokens = 8},
          .memory_bytes = memory_bytes,
          .n_data = GetParam()});
  }
};

// Chats that take turns, more chats than ranks: each finds its own beginning again.
TEST_P(EngineOnDataRanks, AChatComesBackToItsRank) {
  constexpr int kChats = 5;
  std::vector<std::vector<Token>> chats;
  for (int chat = 0; chat < kChats; ++chat) {
    chats.push_back(Text(200, chat));
  }
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<TokenStream> streams;
    for (const std::vector<Token>& chat : chats) {
      streams.push_back(Submit(chat, 50));
    }
    RunAll();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const std::vector<Token> answer = Answer(streams[i]);
      EXPECT_EQ(answer.size(), 50u);
      const auto n_old = std::ssize(chats[i]) - 30;
      const std::int64_t expected = turn == 0 ? 0 : (n_old - 1) / 128 * 128;
      EXPECT_GE(streams[i].stats().cached_tokens, expected) << "chat " << i << " turn " << turn;
      chats[i].insert(chats[i].end(), answer.begin(), answer.end());
      const std::vector<Token> question = Text(30, 100 + turn);
      chats[i].insert(chats[i].end(), question.begin(), question.end());
    }
  }
}

TEST_P(EngineOnDataRanks, PromptsAreReadOnAllRanksAtOnce) {
  const int n_ranks = GetParam();
  std::vector<TokenStream> streams;
  for (int i = 0; i < 2 * n_ranks; ++i) {
    streams.push_back(Submit(Text(400, i), 20));
  }
  RunAll();
  // No rank has waited for another's tokens: every step had equally many tokens on each rank.
  EXPECT_EQ(model_->n_tokens, 2 * n_ranks * (400 + 19));
  EXPECT_EQ(model_->n_waited_tokens, 2 * (400 + 19));
}

// Ranks get equal shares, however many prompts each has.
TEST_P(EngineOnDataRanks, ARankOfManyPromptsDoesNotTakeTheOthersTokens) {
  const int n_ranks = GetParam();
  const std::vector<Token> shared = Text(300, 1);
  TokenStream first = Submit(shared, 1);
  RunAll();
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) {  // all where the shared beginning is
    std::vector<Token> prompt = shared;
    const std::vector<Token> rest = Text(600, 20 + i);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    streams.push_back(Submit(prompt, 1));
  }
  for (int rank = 1; rank < n_ranks; ++rank) {
    streams.push_back(Submit(Text(600, 30 + rank), 1));
  }
  const std::int64_t n_before = model_->n_tokens;
  const std::int64_t waited_before = model_->n_waited_tokens;
  ASSERT_EQ(core_->Step(), StepOutcome::kRan);
  EXPECT_EQ(model_->n_tokens - n_before, 120 * n_ranks);
  EXPECT_EQ(model_->n_waited_tokens - waited_before, 120);
  RunAll();
}

// As many sequences as a rank has slots wait for the one that reads the text there; the next rank
// reads the text too.
TEST_P(EngineOnDataRanks, APromptOfManyIsReadOnceOnARank) {
  const int n_ranks = GetParam();
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3 * n_ranks; ++i) {
    streams.push_back(Submit(Text(300, 1), 40));
  }
  RunAll();
  const std::vector<Token> answer = Answer(streams[0]);
  std::int64_t n_cached = 0;
  for (TokenStream& stream : streams) {
    n_cached += stream.stats().cached_tokens;
    if (&stream != &streams[0]) {
      EXPECT_EQ(Answer(stream), answer);
    }
  }
  EXPECT_EQ(n_cached, 2 * n_ranks * 256);
}

TEST_P(EngineOnDataRanks, ChoicesStayWhereTheirPromptWasRead) {
  TokenStream stream = Submit(Text(300, 1), 5, 3);
  RunAll();
  EXPECT_EQ(model_->n_tokens, 300 + 3 * 4);
  EXPECT_EQ(model_->n_waited_tokens, model_->n_tokens);
}

// A rank has memory for little more than one sequence: they do not disturb each other, however
// little there is.
TEST_P(EngineOnDataRanks, MemoryOfARankIsForItsSequences) {
  MakeRanks(1);
  const SequenceCache& large = model_->cache();
  const std::int64_t others = large.bytes() - large.arena(0).n_slabs() * large.SlabBytes();
  const std::int64_t blocks = BlockCount(1'000);
  const std::int64_t per_slab = large.arena(0).histories_per_slab();
  const std::int64_t slabs = MostWindowBlocks(large.shape()) + (blocks + per_slab - 1) / per_slab;
  MakeRanks(1, others + slabs * large.SlabBytes());
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3 * GetParam(); ++i) {
    streams.push_back(Submit(Text(800, i), 30));
  }
  RunAll();
  for (TokenStream& stream : streams) {
    EXPECT_EQ(Answer(stream).size(), 30u);
  }
  EXPECT_EQ(metrics_->Snapshot().preemptions, 0);
  EXPECT_LE(model_->n_waited_tokens * GetParam(), model_->n_tokens + 100 * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, EngineOnDataRanks, ::testing::Values(2, 4));

}  // namespace
}  // namespace fathom::testing
