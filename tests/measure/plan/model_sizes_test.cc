// The weights and caches of ranks, against the model's own code for the same layout.
#include "measure/plan/model_sizes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/weight_shard.h"
#include "experts/balance/expert_placement.h"
#include "experts/store/placed_experts.h"
#include "kv_cache/layout.h"
#include "kv_cache/sequence_cache.h"
#include "measure/slice/shapes.h"
#include "model/cache_shape.h"
#include "model/weight_pieces.h"
#include "model/weights.h"
#include "tests/model/checkpoint_case.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::plan {
namespace {

namespace fs = std::filesystem;

class ModelSizesTest : public ::testing::TestWithParam<testing::CheckpointCase> {
 protected:
  void SetUp() override {
    directory_ = GetParam().Directory();
    if (!directory_) GTEST_SKIP() << testing::kNoSharedData;
    checkpoint_ = Checkpoint::Open(*directory_).value();
  }

  std::optional<fs::path> directory_;
  Checkpoint checkpoint_;
};

// Leaves an expert rank the experts that the maps place on it.
void DropRemoteExperts(ModelWeights& weights, int expert_rank,
                       const std::vector<ReplicaMap>& maps) {
  const auto drop = [&](const ReplicaMap& map, std::vector<ExpertWeights>& experts) {
    for (std::int32_t e = 0; e < std::ssize(experts); ++e) {
      ExpertWeights& expert = experts[static_cast<std::size_t>(e)];
      expert = map.IsOn(expert_rank, e) ? expert : WithoutData(expert);
    }
  };
  for (BlockWeights& block : weights.layers) {
    drop(maps[static_cast<std::size_t>(block.index)], block.ffn.experts);
  }
  if (weights.draft) {
    for (BlockWeights& block : weights.draft->blocks) {
      drop(maps[static_cast<std::size_t>(block.index)], block.ffn.experts);
    }
  }
}

TEST_P(ModelSizesTest, WeightsOfARankAreThoseItBinds) {
  const ModelSizes sizes = ModelSizes::Read(*directory_).value();
  int n_compared = 0;
  for (const int n_devices : {1, 2, 4}) {
    for (const ParallelLayout& layout : LegalLayouts(sizes.config(), n_devices)) {
      for (int stage = 0; stage < layout.n_stages && !layout.is_estimate(); ++stage) {
        const ModelShard share = sizes.StageShard(layout, stage);
        WeightBinder binder(checkpoint_);
        ModelWeights weights = BindWeights(checkpoint_, sizes.config(), sizes.drafter(), binder);
        ASSERT_TRUE(binder.Finish().has_value());
        DropRemoteExperts(
            weights, share.expert_rank,
            MakeReplicaMaps({}, NumBlocks(sizes.config()), CountExperts(sizes.config(), share)));
        ShardWeights(weights, sizes.config(), share);
        EXPECT_EQ(static_cast<double>(sizes.WeightsOfRank(layout, stage, 0)),
                  static_cast<double>(WeightBytes(weights)))
            << Flags(layout) << " stage " << stage;
        ++n_compared;
      }
    }
  }
  EXPECT_GE(n_compared, 5);
}

TEST_P(ModelSizesTest, TheConfigurationAloneSaysTheSame) {
  const ModelSizes read = ModelSizes::Read(*directory_).value();
  const ModelSizes alone("alone", read.config());
  if (read.formats().expert_scale_bytes != 1) {
    // The configuration does not say that scales are F32: 3 bytes more for each block of 128 x 128.
    EXPECT_LT(alone.bytes(), read.bytes());
    EXPECT_NEAR(static_cast<double>(alone.bytes()) / static_cast<double>(read.bytes()), 1, 3e-4);
    return;
  }
  EXPECT_EQ(alone.bytes(), read.bytes());
  EXPECT_EQ(alone.stage_weights().layers, read.stage_weights().layers);
  EXPECT_EQ(alone.stage_weights().first, read.stage_weights().first);
  EXPECT_EQ(alone.stage_weights().last, read.stage_weights().last);
}

TEST_P(ModelSizesTest, CachesAreThoseOfTheModel) {
  const ModelSizes sizes = ModelSizes::Read(*directory_).value();
  const CacheShape shape =
      MakeCacheShape(sizes.config(), {.max_sequences = 3, .max_context = 1024}, sizes.drafter());
  EXPECT_DOUBLE_EQ(sizes.CacheBytesPerToken(), BytesPerToken(shape));
  EXPECT_EQ(sizes.CacheBytes(sizes.StageShard({}, 0), 3, 1024), SequenceCache::FullBytes(shape));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ModelSizesTest, testing::AllCheckpoints(),
                         testing::NameOfCase);
INSTANTIATE_TEST_SUITE_P(DSpark, ModelSizesTest, ::testing::Values(testing::kDSparkMini),
                         testing::NameOfCase);

// Flash with the drafter of three stages behind its layers instead of the MTP head.
ModelConfig FlashWithDSpark() {
  ModelConfig config = FlashConfig();
  config.dspark = DSparkConfig{.n_stages = 3,
                               .dspark_block_size = 5,
                               .dspark_markov_rank = 256,
                               .dspark_noise_token_id = 128'799,
                               .dspark_target_layer_ids = {40, 41, 42}};
  config.compress_ratios.insert(config.compress_ratios.end(), {0, 0});
  return config;
}

// docs/spec/checkpoint.md 5: the published total of Flash-0731.
TEST(PublishedSizes, OfDSparkIsThePublishedTotal) {
  const ModelSizes alone("flash", FlashWithDSpark());
  EXPECT_EQ(alone.bytes(), 166'878'536'440);
  const testing::TemporaryDirectory directory;
  testing::WriteSparseCheckpoint(directory.path(), ConfigJson(FlashWithDSpark()),
                                 {.head = testing::NativeHead::kDSpark, .n_draft_stages = 3});
  const ModelSizes files = ModelSizes::Read(directory.path()).value();
  EXPECT_EQ(files.stage_weights().last, alone.stage_weights().last);
  EXPECT_EQ(files.bytes(), alone.bytes());
}

// The caches of the drafter: window keys of three layers, and the features of a window.
TEST(PublishedSizes, OfDSparkCachesCountWhatIsDeferred) {
  const ModelConfig config = FlashWithDSpark();
  const ModelSizes sizes("flash", config);
  const ModelOptions options = {.max_sequences = 2, .max_context = 1024};
  CacheShape shape = MakeCacheShape(config, options, sizes.drafter());
  EXPECT_EQ(shape.deferred_bytes, 128 * 3 * 4096 * 2);
  const std::int64_t with = SequenceCache::FullBytes(shape);
  EXPECT_EQ(sizes.CacheBytes(sizes.StageShard({}, 0), 2, 1024), with);
  const std::int64_t deferred = 2 * std::exchange(shape.deferred_bytes, 0);
  EXPECT_EQ(SequenceCache::FullBytes(shape), with - deferred);
  EXPECT_EQ(MakeCacheShape(config, options, nullptr).deferred_bytes, 0);
}

// docs/spec/flops_bytes.md 1 and 3: 156.0 GB without the MTP head, 3.594 GB more with it; 3514.25
// bytes of cache a token.
TEST(PublishedSizes, AreThoseOfTheTables) {
  const ModelSizes flash("flash", FlashConfig());
  EXPECT_NEAR(static_cast<double>(flash.bytes()), (156.0 + 3.594) * 1e9, 0.051e9);
  EXPECT_NEAR(flash.CacheBytesPerToken(), 3514.25, 0.01);
  const ModelSizes pro("pro", ProConfig());
  EXPECT_NEAR(static_cast<double>(pro.bytes()), (850.7 + 13.957) * 1e9, 0.051e9);
  EXPECT_NEAR(pro.CacheBytesPerToken(), 5031.44, 0.01);
}

// Full size, of zeros that take no disk.
TEST(PublishedSizes, OfFilesAndOfTheConfigurationAgree) {
  const testing::TemporaryDirectory directory;
  testing::WriteSparseCheckpoint(directory.path(), ConfigJson(FlashConfig()), {});
  const ModelSizes files = ModelSizes::Read(directory.path()).value();
  const ModelSizes alone("flash", FlashConfig());
  EXPECT_EQ(files.stage_weights().layers, alone.stage_weights().layers);
  EXPECT_EQ(files.stage_weights().first, alone.stage_weights().first);
  EXPECT_EQ(files.stage_weights().last, alone.stage_weights().last);
  const ParallelLayout layout = {.n_tensor = 8, .n_stages = 2, .expert_parallel = true};
  for (const int stage : {0, 1}) {
    EXPECT_EQ(files.WeightsOfRank(layout, stage, 0), alone.WeightsOfRank(layout, stage, 0));
  }
}

TEST(PublishedSizes, RedundantExpertsAreWeights) {
  const ModelSizes flash("flash", FlashConfig());
  const ParallelLayout layout = {.n_tensor = 8, .expert_parallel = true};
  const double expert = flash.costs().layers()[0].expert.bytes;
  EXPECT_NEAR(
      static_cast<double>(flash.WeightsOfRank(layout, 0, 64) - flash.WeightsOfRank(layout, 0, 0)),
      64 / 8 * 44 * expert, 1);  // of 43 layers and the MTP head
}

TEST(ModelSizesErrors, NameTheFile) {
  const testing::TemporaryDirectory directory;
  const Result<ModelSizes> nothing = ModelSizes::Read(directory.path());
  ASSERT_FALSE(nothing.has_value());
  EXPECT_NE(nothing.error().message.find("config.json"), std::string::npos);
  testing::WriteFile(directory.path() / "config.json", ConfigJson(FlashConfig()));
  EXPECT_TRUE(ModelSizes::Read(directory.path()).has_value());
  // Existing files count, though they cannot be read.
  testing::WriteFile(directory.path() / "model.safetensors", "no header");
  EXPECT_FALSE(ModelSizes::Read(directory.path()).has_value());
}

}  // namespace
}  // namespace fathom::measure::plan
