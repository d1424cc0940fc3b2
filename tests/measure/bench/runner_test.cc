// Rows on the embedded model: counts and reports. Speed is not tested.
#include "measure/bench/runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "kernels/profile.h"
#include "kernels/registry.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::bench {
namespace {

TEST(Spread, IsOfAllValues) {
  const Spread odd = ComputeSpread({3, 1, 2});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(ComputeSpread({4, 1, 2, 9}).median, 3);
  EXPECT_EQ(ComputeSpread({5}).median, 5);
}

TEST(Plan, ModelHasRoomForEveryRow) {
  const ModelOptions options =
      OptionsFor({.rows = *ParseRows("pp300,tg5@100x7,tg2@400"), .chunk = 64});
  EXPECT_EQ(options.max_sequences, 7);
  EXPECT_EQ(options.max_context, 402);
  EXPECT_EQ(options.max_batch_tokens, 64);
  EXPECT_EQ(options.max_logit_rows, 7);
  EXPECT_EQ(OptionsFor({.rows = *ParseRows("tg5x7"), .chunk = 64}).max_batch_tokens, 7);
}

// Every operation of every layer, by kind; the rows read what the formulas say.
TEST(Runner, ProfilesARowByOperationAndKindOfLayer) {
  const std::filesystem::path fairy = testing::ProjectPath("models/fairy");
  const std::unique_ptr<Backend> backend =
      MakeBackend("cpu", {.n_threads = 2, .can_profile = true}).value();
  const std::unique_ptr<Profiler> profiler = backend->MakeProfiler().value();
  const Plan plan = {.rows = *ParseRows("tg2@200"), .profiler = profiler.get()};
  const std::unique_ptr<Model> model = Model::Load(fairy, *backend, OptionsFor(plan)).value();
  const Checkpoint checkpoint = Checkpoint::Open(fairy).value();
  const ModelCosts costs(model->config(), FindStoredFormats(checkpoint));
  const std::unique_ptr<RooflineProbe> probe =
      backend->MakeRooflineProbe({.buffer_bytes = 1 << 20}).value();
  const auto results = RunRows(*model, costs, plan, *probe, {});
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_TRUE(results->front().profile);
  std::map<std::string, std::int64_t> n;
  std::set<std::string> parts;
  double bytes = 0;
  for (const ProfileRow& row : results->front().profile->rows) {
    n[row.name] += row.n;
    parts.insert(row.part);
    bytes += row.cost.bytes.value_or(0);
  }
  const ModelConfig& config = model->config();
  std::set<std::string> kinds = {""};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    kinds.insert(fmt::format("{}, ratio {}", layer < config.num_hash_layers ? "hash" : "learned",
                             config.compress_ratios[static_cast<std::size_t>(layer)]));
  }
  EXPECT_EQ(parts, kinds);
  EXPECT_EQ(n["SparseAttention"], 2 * config.num_hidden_layers);
  EXPECT_EQ(n["ExpertRows"], 2 * config.num_hidden_layers);
  EXPECT_EQ(n["HcPre"], 4 * config.num_hidden_layers);
  EXPECT_EQ(n["HcHead"], 2);
  // Weights and cached rows as the formulas count them, and activations.
  EXPECT_GE(bytes, 2e9 * results->front().gb_per_token);
  EXPECT_LE(bytes, 3e9 * results->front().gb_per_token);
}

class RunnerTest : public ::testing::Test {
 protected:
  // The results of the rows, one repetition each.
  std::vector<RowResult> Run(std::string_view rows, std::int64_t chunk) {
    const std::filesystem::path fairy = testing::ProjectPath("models/fairy");
    const Plan plan = {.rows = *ParseRows(rows), .n_repetitions = 2, .chunk = chunk};
    const std::unique_ptr<Backend> backend = MakeCpuBackend(std::nullopt, 2).value();
    const std::unique_ptr<Model> model = Model::Load(fairy, *backend, OptionsFor(plan)).value();
    const Checkpoint checkpoint = Checkpoint::Open(fairy).value();
    const ModelCosts costs(model->config(), FindStoredFormats(checkpoint));
    const std::unique_ptr<RooflineProbe> probe =
        backend->MakeRooflineProbe({.buffer_bytes = 1 << 20}).value();
    std::size_t n_begun = 0;
    const auto results =
        RunRows(*model, costs, plan, *probe,
                [&](std::size_t n_done, const RowSpec&) { EXPECT_EQ(n_done, n_begun++); });
    EXPECT_TRUE(results) << results.error().message;
    EXPECT_EQ(probe->n_measurements(), static_cast<int>(plan.rows.size()) * plan.n_repetitions + 1);
    single_ = costs.Dense(1, 1);
    routed_ = costs.RoutedPerToken();
    first_ = costs.Attention(0);
    second_ = costs.Attention(1);
    at_1000_ = costs.Attention(1000);
    return results.value_or(std::vector<RowResult>());
  }

  Cost single_, routed_, first_, second_, at_1000_;
};

TEST_F(RunnerTest, DecodingCountsWhatATokenNeeds) {
  const std::vector<RowResult> rows = Run("tg2,tg1@1000,tg2x2", 512);
  ASSERT_EQ(rows.size(), 3u);
  for (const RowResult& row : rows) {
    EXPECT_GT(row.tok_s.min, 0);
    EXPECT_LE(row.tok_s.min, row.tok_s.median);
    EXPECT_LE(row.tok_s.median, row.tok_s.max);
    EXPECT_DOUBLE_EQ(row.gb_s(), row.gb_per_token * row.tok_s.median);
  }
  // One sequence always reads two experts of every layer.
  EXPECT_EQ(rows[0].experts_per_layer, 2);
  EXPECT_DOUBLE_EQ(rows[0].gb_per_token,
                   1e-9 * (single_.bytes + routed_.bytes + (first_.bytes + second_.bytes) / 2));
  EXPECT_DOUBLE_EQ(rows[0].gflop_per_token,
                   1e-9 * (single_.flops + routed_.flops + (first_.flops + second_.flops) / 2));
  EXPECT_DOUBLE_EQ(rows[1].gb_per_token, 1e-9 * (single_.bytes + routed_.bytes + at_1000_.bytes));
  // Two sequences share what they can: between all and nothing of their experts.
  EXPECT_GE(rows[2].experts_per_layer, 2);
  EXPECT_LE(rows[2].experts_per_layer, 4);
  EXPECT_LT(rows[2].gb_per_token, rows[0].gb_per_token);
  EXPECT_DOUBLE_EQ(rows[2].gflop_per_token, rows[0].gflop_per_token);
}

TEST_F(RunnerTest, PrefillReadsTheWeightsOncePerChunk) {
  const std::vector<RowResult> rows = Run("pp64,pp64@100", 64);
  const std::vector<RowResult> chunked = Run("pp64", 16);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(chunked.size(), 1u);
  EXPECT_GT(rows[0].experts_per_layer, chunked[0].experts_per_layer);
  EXPECT_LE(rows[0].experts_per_layer, 8);  // all there are
  // Four times as often, except for the head, which only the last chunk needs.
  EXPECT_GT(chunked[0].gb_per_token, 3 * rows[0].gb_per_token - 1e-9 * single_.bytes / 16);
  EXPECT_LT(chunked[0].gb_per_token, 4 * rows[0].gb_per_token);
  EXPECT_DOUBLE_EQ(chunked[0].gflop_per_token, rows[0].gflop_per_token);
  EXPECT_GT(rows[1].gflop_per_token, rows[0].gflop_per_token);
}

}  // namespace
}  // namespace fathom::measure::bench
