// A row of `fathom bench --profile` on an emulated GPU: every kernel of a step, with its bytes.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/safetensors.h"
#include "kernels/gpu/gpu_backend.h"
#include "measure/bench/costs.h"
#include "measure/bench/runner.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

TEST(GpuProfile, HasEveryByteThatAStepNeeds) {
  const std::filesystem::path fairy = ProjectPath("models/fairy");
  const std::unique_ptr<GpuBackend> gpu = GpuBackend::Make(MakeEmulatorDriver({})).value();
  const std::unique_ptr<Profiler> profiler = gpu->MakeProfiler().value();
  const bench::Plan plan = {.rows = *bench::ParseRows("tg1@200"), .profiler = profiler.get()};
  const std::unique_ptr<Model> model = Model::Load(fairy, *gpu, bench::OptionsFor(plan)).value();
  const Checkpoint checkpoint = Checkpoint::Open(fairy).value();
  const bench::ModelCosts costs(model->config(), bench::FindStoredFormats(checkpoint));
  const std::unique_ptr<RooflineProbe> probe =
      gpu->MakeRooflineProbe({.buffer_bytes = 1 << 16}).value();
  const auto results = bench::RunRows(*model, costs, plan, *probe, {});
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_TRUE(results->front().profile);
  const Profile& profile = *results->front().profile;
  const bool has_kernels = !profile.rows.empty();
  ASSERT_TRUE(has_kernels);
  std::map<std::string, std::int64_t> n;
  double bytes = 0;
  for (const ProfileRow& row : profile.rows) {
    n[row.name] += row.n;
    EXPECT_GT(row.seconds, 0) << row.name;
    EXPECT_EQ(row.cost.bytes.has_value(), row.name != "(between)") << row.name;
    if (row.name.front() != '(') bytes += *row.cost.bytes;
  }
  const std::int64_t n_layers = model->config().num_hidden_layers;
  EXPECT_EQ(n["AttentionScores"], n_layers);
  EXPECT_EQ(n["AttentionWeights"], n_layers);
  EXPECT_EQ(n["AttentionValues"], n_layers);
  EXPECT_EQ(n["ExpertHidden"], n_layers);
  EXPECT_EQ(n["HcPre"], 2 * n_layers + 1);  // and the head's
  EXPECT_EQ(n["ReadMemory"], 0);            // the limits are not profiled
  // Weights and cached rows as the formulas count them, and activations.
  EXPECT_GE(bytes, 1e9 * results->front().gb_per_token);
  EXPECT_LE(bytes, 1.5e9 * results->front().gb_per_token);
}

}  // namespace
}  // namespace fathom::testing
