// Blocks on the disks of several ranks: found again by the same cut, by no other, and whole or not
// at all.
#include "engine/ranks/rank_disks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "tests/engine/ranks/ranks_model.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kPromptTokens = 300;
constexpr std::int64_t kWhole = 256;  // tokens of them that can be cached

struct Told {
  std::vector<Token> tokens;
  std::int64_t cached_tokens = 0;
};

class RankDisksTest : public ::testing::Test {
 protected:
  std::filesystem::path blocks() const { return directory_.path() / "blocks"; }

  // Returns the answer to one prompt of an engine with this layout, which starts with the blocks on
  // disk and stores its own there.
  Told Run(const RankCounts& counts) { return RunAll(counts, 1).front(); }

  // Returns the answers to several prompts at once.
  std::vector<Told> RunAll(const RankCounts& counts, Token n_prompts) {
    RanksModel model(
        ProjectPath("models/fairy"), counts,
        {.max_sequences = 4, .max_context = 400, .max_batch_tokens = 100, .with_draft = true},
        false);
    EngineMetrics metrics;
    auto core = EngineCore::Create(model,
                                   {.draft = {.enabled = true, .depth = 1},
                                    .disk = {.directory = blocks()},
                                    .fingerprint = "test"},
                                   metrics);
    EXPECT_TRUE(core) << core.error().message;
    std::vector<TokenStream> streams;
    for (Token kind = 0; kind < n_prompts; ++kind) {
      std::vector<Token> prompt;
      for (Token token = 0; token < kPromptTokens; ++token) {
        prompt.push_back((7 * token + 3 + kind) % 1'000);
      }
      auto state = (*core)->Prepare({.prompt = prompt, .sampling = {.seed = 5, .max_tokens = 20}},
                                    std::make_shared<Waker>());
      EXPECT_TRUE(state) << state.error().message;
      streams.emplace_back((*state)->stream);
      (*core)->Add(*std::move(state));
    }
    while ((*core)->Step() != StepOutcome::kIdle) {
      (*core)->SettleDisk();
    }
    EXPECT_TRUE((*core)->caches().IsConsistent());
    (*core)->Close();
    std::vector<Told> all;
    for (TokenStream& stream : streams) {
      Told& told = all.emplace_back();
      StreamEvent event;
      while (stream.NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
        if (event.token != StreamEvent::kNoToken) told.tokens.push_back(event.token);
      }
      told.cached_tokens = stream.stats().cached_tokens;
    }
    return all;
  }

  // The files of each fingerprint.
  std::map<std::string, std::vector<std::filesystem::path>> Files() const {
    std::map<std::string, std::vector<std::filesystem::path>> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(blocks())) {
      if (entry.is_regular_file()) {
        const std::filesystem::path name = std::filesystem::relative(entry.path(), blocks());
        files[name.begin()->string()].push_back(entry.path());
      }
    }
    return files;
  }

  const TemporaryDirectory directory_;
};

constexpr RankCounts kStages = {.n_stages = 2};
constexpr RankCounts kTensors = {.n_tensor = 2, .expert_parallel = true};
constexpr RankCounts kBoth = {.n_tensor = 2, .n_stages = 2, .expert_parallel = true};

TEST_F(RankDisksTest, TheSameLayersFindTheirBlocksAgain) {
  const Told first = Run(kStages);
  EXPECT_EQ(first.tokens.size(), 20u);
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(Files().size(), 2u) << "a fingerprint for each part of the layers";
  const Told again = Run(kStages);
  EXPECT_EQ(again.cached_tokens, kWhole);
  EXPECT_EQ(again.tokens, first.tokens);
  // These stages, divided among tensor ranks.
  const Told cut = Run(kBoth);
  EXPECT_EQ(cut.cached_tokens, kWhole);
  EXPECT_EQ(cut.tokens, first.tokens);
}

TEST_F(RankDisksTest, OtherLayersFindNothing) {
  const Told stages = Run(kStages);
  const Told tensors = Run(kTensors);
  EXPECT_EQ(tensors.cached_tokens, 0);
  EXPECT_EQ(tensors.tokens, stages.tokens);
  EXPECT_EQ(Files().size(), 3u);
  const Told other = Run({.n_stages = 3});
  EXPECT_EQ(other.cached_tokens, 0);
  EXPECT_EQ(other.tokens, stages.tokens);
  const Told again = Run(kTensors);
  EXPECT_EQ(again.cached_tokens, kWhole);
  EXPECT_EQ(again.tokens, stages.tokens);
}

// Each tensor rank has its own files, with its own rows.
TEST_F(RankDisksTest, DividedRowsFindTheirBlocksAgain) {
  constexpr RankCounts kDivided = {.n_tensor = 2, .decode_context_parallel = true};
  const Told whole = Run(kTensors);
  EXPECT_EQ(Files().size(), 1u);
  const Told first = Run(kDivided);
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(first.tokens, whole.tokens);
  EXPECT_EQ(Files().size(), 3u);
  const Told again = Run(kDivided);
  EXPECT_EQ(again.cached_tokens, kWhole);
  EXPECT_EQ(again.tokens, whole.tokens);
}

TEST_F(RankDisksTest, ABlockThatOneRankCannotReadIsAMissOnAll) {
  const Told first = Run(kStages);
  ASSERT_EQ(Files().size(), 2u);
  const auto all_files = Files();
  for (const auto& [fingerprint, files] : all_files) {
    for (const bool is_gone : {false, true}) {
      const std::size_t n_files = files.size();
      for (const std::filesystem::path& file : files) {
        if (is_gone) {
          std::filesystem::remove(file);
        } else {
          std::string bytes = ReadFile(file);
          bytes[bytes.size() / 2] ^= 1;
          WriteFile(file, bytes);
        }
      }
      const Told missed = Run(kStages);
      EXPECT_EQ(missed.cached_tokens, 0);
      EXPECT_EQ(missed.tokens, first.tokens);
      EXPECT_EQ(Files().at(fingerprint).size(), n_files) << "stored anew";
      const Told found = Run(kStages);
      EXPECT_EQ(found.cached_tokens, kWhole);
      EXPECT_EQ(found.tokens, first.tokens);
    }
  }
}

// Prompts of three chats, on each data rank one or two.
TEST_F(RankDisksTest, ADataRankHasItsBlocksOnDisk) {
  for (const RankCounts& counts : {RankCounts{.expert_parallel = true, .n_data = 2},
                                   {.n_stages = 2, .expert_parallel = true, .n_data = 2}}) {
    const std::vector<Told> first = RunAll(counts, 3);
    const std::vector<Told> again = RunAll(counts, 3);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].cached_tokens, 0);
      EXPECT_EQ(again[i].cached_tokens, kWhole);
      EXPECT_EQ(again[i].tokens, first[i].tokens);
    }
  }
}

TEST_F(RankDisksTest, FingerprintsNameTheLayers) {
  const BlockKey root = {.bytes = {1, 2}};
  CacheShape shape = {.ratios = {0, 4, 128, 4}};
  EXPECT_EQ(FingerprintOfLayers(root, shape), root);
  shape.end_layer = 2;
  const BlockKey first = FingerprintOfLayers(root, shape);
  EXPECT_NE(first, root);
  shape.end_layer = 3;
  EXPECT_NE(FingerprintOfLayers(root, shape), first);
  shape.first_layer = 2;
  shape.end_layer = 4;
  const BlockKey second = FingerprintOfLayers(root, shape);
  EXPECT_NE(second, first);
  EXPECT_NE(FingerprintOfLayers({.bytes = {1, 3}}, shape), second);
  shape.rows_of_ratio_4 = {.rank = 0, .n = 2};
  const BlockKey even = FingerprintOfLayers(root, shape);
  EXPECT_NE(even, second);
  shape.rows_of_ratio_4.rank = 1;
  EXPECT_NE(FingerprintOfLayers(root, shape), even);
}

}  // namespace
}  // namespace fathom::testing
