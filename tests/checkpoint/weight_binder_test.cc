#include "checkpoint/weight_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WeightBinderTest : public ::testing::Test {
 protected:
  Checkpoint Open(const std::vector<testing::TensorSpec>& tensors) {
    return testing::OpenZeros(directory_.path(), tensors);
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(WeightBinderTest, BindsWhatIsThere) {
  const Checkpoint checkpoint = Open({{"norm.weight", DType::kBF16, {8}},
                                      {"wo_a.weight", DType::kF8E4M3, {2, 4}},
                                      {"scalar", DType::kF32, {}}});
  WeightBinder binder(checkpoint);
  EXPECT_EQ(binder.Bind("norm.weight", {DType::kBF16}, {8}), checkpoint.Find("norm.weight"));
  EXPECT_EQ(binder.Bind("wo_a.weight", {DType::kBF16, DType::kF8E4M3}, {2, 4}),
            checkpoint.Find("wo_a.weight"));
  EXPECT_EQ(binder.Bind("scalar", {DType::kF32}, {}), checkpoint.Find("scalar"));
  EXPECT_THAT(binder.Problems(), IsEmpty());
  EXPECT_TRUE(binder.Finish());
}

TEST_F(WeightBinderTest, RecordsEveryProblem) {
  const Checkpoint checkpoint =
      Open({{"norm.weight", DType::kBF16, {8}}, {"head.weight", DType::kBF16, {8, 2}}});
  WeightBinder binder(checkpoint);
  EXPECT_EQ(binder.Bind("embed.weight", {DType::kBF16}, {8, 2}), nullptr);
  EXPECT_EQ(binder.Bind("norm.weight", {DType::kF32, DType::kF16}, {8}), nullptr);
  EXPECT_EQ(binder.Bind("head.weight", {DType::kBF16}, {8, 3}), nullptr);
  EXPECT_EQ(binder.Bind("head.weight", {DType::kBF16}, {8}), nullptr);
  std::vector<std::string> messages;
  for (const Error& problem : binder.Problems()) {
    messages.push_back(problem.message);
  }
  EXPECT_THAT(messages, ElementsAre("embed.weight: missing, expected BF16 [8, 2]",
                                    "norm.weight: expected F32 or F16 [8], found BF16 [8]",
                                    "head.weight: expected BF16 [8, 3], found BF16 [8, 2]",
                                    "head.weight: expected BF16 [8], found BF16 [8, 2]"));
  const Status status = binder.Finish();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr(fmt::format("4 problems with the tensors of {}:\n  embed.weight: missing",
                                    directory_.path().string())));
}

TEST_F(WeightBinderTest, ShowsTwentyAndCountsTheRest) {
  const Checkpoint checkpoint = Open({});
  WeightBinder binder(checkpoint);
  for (int i = 0; i < 23; ++i) {
    binder.Bind(fmt::format("layers.{}.x", i), {DType::kBF16}, {1});
  }
  const Status status = binder.Finish();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("23 problems with"), HasSubstr("layers.19.x"),
                    Not(HasSubstr("layers.20.x")), HasSubstr("... and 3 more")));
}

// Every tensor of a real checkpoint is one of the inventory, and the other way round.
TEST(WeightBinderInventory, EmbeddedModelAndOracles) {
  std::vector<std::filesystem::path> directories = {testing::ProjectPath("models/fairy")};
  if (const auto oracle = testing::SharedData("oracle")) {
    for (const char* name : {"flash-mini", "pro-mini", "base-mini"}) {
      directories.push_back(*oracle / name);
    }
  }
  for (const std::filesystem::path& directory : directories) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
    ASSERT_TRUE(config) << config.error().message;
    testing::NativeOptions options;
    if (config->expert_dtype == ExpertDType::kFp8) {
      options = {.experts = ExpertDType::kFp8, .scales = DType::kF32};
    }
    WeightBinder binder(*checkpoint);
    std::set<std::string> inventory;
    for (const std::vector<testing::TensorSpec>& shard : testing::NativeShards(*config, options)) {
      for (const testing::TensorSpec& tensor : shard) {
        binder.Bind(tensor.name, {tensor.dtype}, tensor.shape);
        inventory.insert(std::string(tensor.name));
      }
    }
    const Status status = binder.Finish();
    EXPECT_TRUE(status) << status.error().message;
    for (const Checkpoint::Tensor& tensor : checkpoint->tensors()) {
      EXPECT_TRUE(inventory.contains(tensor.name)) << directory << ": " << tensor.name;
    }
  }
}

}  // namespace
}  // namespace fathom::checkpoint
