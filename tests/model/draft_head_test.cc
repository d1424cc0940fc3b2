// Which draft head a checkpoint has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model/draft/dspark.h"
#include "model/draft/mtp.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

using ::testing::HasSubstr;

class DraftHeadTest : public ::testing::Test {
 protected:
  Result<DraftHead> Head(const std::vector<std::string>& names) {
    std::vector<testing::TensorSpec> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, DType::kU8, {1}});
    }
    return FindDraftHead(testing::OpenZeros(directory_.path(), tensors));
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(DraftHeadTest, FoundFromTensors) {
  Result<DraftHead> head = Head({"embed.weight"});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, nullptr);
  EXPECT_EQ(head->n_stages, 0);
  head = Head({"mtp.0.e_proj.weight", "mtp.0.norm.weight"});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, &kMtpDrafter);
  EXPECT_EQ(head->n_stages, 1);
  head = Head({"mtp.0.main_proj.weight", "mtp.1.attn_norm.weight", "mtp.2.norm.weight"});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, &kDSparkDrafter);
  EXPECT_EQ(head->n_stages, 3);
}

TEST_F(DraftHeadTest, CopiesOfTheEmbeddingAreNoHead) {
  Result<DraftHead> head = Head({"mtp.0.emb.tok_emb.weight", "mtp.0.head.weight"});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->kind, nullptr);
  for (const char* used : {"mtp.0.norm.weight", "mtp.2.markov_head.weight",
                           "mtp.2.confidence_head.weight", "mtp.2.hc_head.weight"}) {
    EXPECT_FALSE(Head({used})) << used;
  }
}

TEST_F(DraftHeadTest, SaysWhatIsWrong) {
  Result<DraftHead> head = Head({"mtp.0.norm.weight"});
  ASSERT_FALSE(head);
  EXPECT_THAT(head.error().message,
              HasSubstr("not the one that shows their kind: mtp.0.e_proj.weight (MTP) or "
                        "mtp.0.main_proj.weight (DSpark)"));
  head = Head({"mtp.0.e_proj.weight", "mtp.0.main_proj.weight"});
  ASSERT_FALSE(head);
  EXPECT_THAT(head.error().message, HasSubstr("expected one draft head"));
  head = Head({"mtp.0.main_proj.weight", "mtp.2.norm.weight"});
  ASSERT_FALSE(head);
  EXPECT_THAT(head.error().message,
              HasSubstr("expected 2 draft stages mtp.0 to mtp.1, found mtp.2"));
}

TEST_F(DraftHeadTest, TheConfigurationNeedsTheNumbersOfTheHead) {
  const std::vector<testing::TensorSpec> tensors = {{"mtp.0.main_proj.weight", DType::kU8, {1}},
                                                    {"mtp.1.norm.weight", DType::kU8, {1}}};
  const Checkpoint checkpoint = testing::OpenZeros(directory_.path(), tensors);
  ModelConfig config;
  const Result<DraftHead> refused = AdoptDraftHead(checkpoint, config);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("dspark_block_size: expected the numbers"));
  config.dspark.emplace();
  ASSERT_TRUE(AdoptDraftHead(checkpoint, config));
  EXPECT_EQ(config.dspark->n_stages, 2);
}

TEST(DraftHead, EmbeddedModelAndOracles) {
  const auto oracle = testing::SharedData("oracle");
  if (!oracle) GTEST_SKIP() << testing::kNoSharedData;
  for (const auto& directory : {testing::ProjectPath("models/fairy"), *oracle / "flash-mini",
                                *oracle / "pro-mini", *oracle / "base-mini"}) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const Result<DraftHead> head = FindDraftHead(*checkpoint);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ(head->kind, &kMtpDrafter);
  }
}

}  // namespace
}  // namespace fathom::model
