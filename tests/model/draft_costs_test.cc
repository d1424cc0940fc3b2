#include "model/draft/draft_costs.h"

#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

// GB, of docs/drafts.md.
DraftCosts Flash() {
  return {.fixed = 7.768,
          .expert = 0.01337,
          .n_layers = 43,
          .n_experts = 256,
          .n_chosen = 6,
          .draft_fixed = 0.171 + 1.059,
          .draft_layers = 1};
}
DraftCosts Pro() {
  return {.fixed = 26.822,
          .expert = 0.03509,
          .n_layers = 61,
          .n_experts = 384,
          .n_chosen = 6,
          .draft_fixed = 0.480 + 1.853,
          .draft_layers = 1};
}

TEST(DraftCosts, AreThoseOfTheTable) {
  EXPECT_NEAR(Flash().StepBytes(1), 11.22, 0.01);
  EXPECT_NEAR(Flash().StepBytes(16), 54.24, 0.01);
  EXPECT_NEAR(Flash().DraftBytes(8, 1), 1.82, 0.01);
  EXPECT_NEAR(Pro().StepBytes(64), 548.77, 0.1);
  // The acceptance from which a draft pays.
  EXPECT_NEAR(Flash().Ratio(1, 1) - 1, 0.42, 0.005);
  EXPECT_NEAR(Flash().Ratio(8, 1) - 1, 0.69, 0.005);
  EXPECT_NEAR(Flash().Ratio(32, 1) - 1, 0.46, 0.005);
  EXPECT_NEAR(Pro().Ratio(1, 1) - 1, 0.38, 0.005);
  EXPECT_NEAR(Pro().Ratio(8, 1) - 1, 0.72, 0.005);
  EXPECT_NEAR(Pro().Ratio(32, 1) - 1, 0.58, 0.005);
}

TEST(DraftCosts, CountPassesAndTheirRows) {
  DraftCosts costs = {.fixed = 10, .draft_fixed = 2};
  EXPECT_EQ(costs.Ratio(1, 0), 1);
  EXPECT_EQ(costs.Ratio(1, 3), 1.6);  // a pass for each draft
  costs.drafts_per_pass = 5;
  costs.draft = 0.5;
  EXPECT_EQ(costs.Ratio(1, 3), 1 + (2 + 3 * 0.5) / 10);
  // 5 rows of the pass and 4 of the step reach all of 2 experts, half the experts at one row.
  costs = {.fixed = 10,
           .expert = 1,
           .n_layers = 2,
           .n_experts = 1'000'000,
           .n_chosen = 1,
           .draft_fixed = 2,
           .draft_layers = 3,
           .rows_per_pass = 5,
           .drafts_per_pass = 5};
  EXPECT_NEAR(costs.StepBytes(4), 10 + 2 * 4, 1e-3);
  EXPECT_NEAR(costs.DraftBytes(1, 3), 2 + 3 * 5, 1e-3);
  EXPECT_EQ(DraftCosts().Ratio(8, 2), 1);
}

// The bytes of everything but the embedding, each once: the step has all experts of the layers.
TEST(DraftCosts, WeighTheTensorsOfACheckpoint) {
  for (const char* name : {"models/fairy", "oracle/dspark-mini"}) {
    const bool is_dspark = std::string_view(name).starts_with("oracle");
    const auto directory = is_dspark ? testing::SharedData(name) : testing::ProjectPath(name);
    if (!directory) continue;
    testing::TestModel loaded(*directory, {.with_draft = true});
    const DraftCosts costs = loaded.model().Limits().draft_costs;
    ASSERT_TRUE(costs.IsKnown());
    const ModelConfig& config = loaded.model().config();
    double expected = 0;
    double head = 0;
    double draft_experts = 0;
    const Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
    ASSERT_TRUE(checkpoint);
    for (const Checkpoint::Tensor& tensor : checkpoint->tensors()) {
      const auto bytes = static_cast<double>(tensor.view.bytes.size());
      const bool is_draft = tensor.name.starts_with("mtp.");
      if (tensor.name == "head.weight") head = bytes;
      if (is_draft && tensor.name.find(".experts.") != std::string::npos) draft_experts += bytes;
      if (tensor.name != "embed.weight" && !tensor.name.ends_with("tid2eid")) expected += bytes;
    }
    const auto n_experts = static_cast<double>(config.n_routed_experts);
    const double markov = is_dspark ? 2 * costs.draft : 0;
    EXPECT_NEAR(costs.fixed + static_cast<double>(costs.n_layers) * n_experts * costs.expert +
                    costs.draft_fixed - head + markov + draft_experts,
                expected, 1)
        << name;
    EXPECT_EQ(costs.n_layers, config.num_hidden_layers);
    EXPECT_EQ(costs.draft_layers, is_dspark ? config.dspark->n_stages : 1);
    EXPECT_EQ(costs.drafts_per_pass, is_dspark ? config.dspark->dspark_block_size : 1);
  }
}

}  // namespace
}  // namespace fathom::model
