// Steps of decoding, through a vendor's driver whose library records what it is asked for: when the
// host waits, and how much of the work comes as graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/gpu/gpu_backend.h"
#include "model/model.h"
#include "tests/kernels/fake_gpu.h"
#include "tests/model/checkpoint_case.h"

namespace fathom::testing {
namespace {

constexpr std::int32_t kSequences = 16;
// Tokens of a prompt: all kinds of layers have compressed rows after them.
constexpr std::int32_t kPrompt = 136;

class DriverSteps : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    fake().free_bytes = std::size_t{2} << 30;
  }
  void TearDown() override {
    model_.reset();
    backend_.reset();
    FakeGpuTest::TearDown();
  }

  // Loads the embedded model on the device of the library, and reads a prompt for each sequence.
  void Load(std::int32_t max_context, const GpuDriverOptions& options) {
    std::unique_ptr<GpuDriver> driver = OpenDriver(options);
    ASSERT_NE(driver, nullptr);
    Result<std::unique_ptr<GpuBackend>> backend = GpuBackend::Make(std::move(driver));
    ASSERT_TRUE(backend) << backend.error().message;
    backend_ = *std::move(backend);
    Result<std::unique_ptr<Model>> model = Model::Load(*kFairy.Directory(), *backend_,
                                                       {.max_sequences = kSequences,
                                                        .max_context = max_context,
                                                        .max_batch_tokens = kPrompt,
                                                        .max_logit_rows = kSequences});
    ASSERT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    const std::vector<Token> prompt(kPrompt, 5);
    for (std::int32_t i = 0; i < kSequences; ++i) {
      Batch batch;
      batch.Add(i, 0, prompt);
      ASSERT_TRUE(model_->Forward(batch));
    }
    ASSERT_TRUE(backend_->Synchronize());
    n_done_.assign(kSequences, kPrompt);
  }

  // Computes the next token of the first n sequences.
  void Decode(std::int32_t n) {
    const Token token = 5;
    Batch batch;
    for (std::int32_t i = 0; i < n; ++i) {
      batch.Add(i, n_done_[static_cast<std::size_t>(i)]++, {&token, 1});
    }
    ASSERT_TRUE(model_->Forward(batch));
    std::vector<std::int32_t> rows(static_cast<std::size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    SamplingRow greedy;
    greedy.rule.is_greedy = true;
    const std::vector<SamplingRow> sampling(rows.size(), greedy);
    const auto describe = [&sampling] { return std::span<const SamplingRow>(sampling); };
    ASSERT_TRUE(model_->StartTokens(rows, describe, 0));
    const Result<ChosenTokens> chosen = model_->FinishTokens(0);
    ASSERT_TRUE(chosen) << chosen.error().message;
    EXPECT_EQ(chosen->choices.size(), rows.size());
    fake().launches.clear();
  }

  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<std::int32_t> n_done_;  // positions of each sequence
};

TEST_P(DriverSteps, WaitOnceAndForNoCopy) {
  constexpr int kSteps = 20;
  ASSERT_NO_FATAL_FAILURE(Load(kPrompt + kSteps, {}));
  fake().n_pageable_downloads = 0;
  for (int step = 0; step < kSteps; ++step) {
    fake().n_waits = 0;
    ASSERT_NO_FATAL_FAILURE(Decode(1 + step % kSequences));
    EXPECT_EQ(fake().n_waits, 1) << "step " << step;
  }
  EXPECT_EQ(fake().n_pageable_downloads, 0);
}

// Batches of 1 to 16 sequences in random order: each size comes often, but hardly ever twice in a
// row.
TEST_P(DriverSteps, StepsOfChangingSizesAreGraphs) {
  constexpr int kSteps = 1000;
  ASSERT_NO_FATAL_FAILURE(Load(kPrompt + kSteps, {.uses_graphs = true}));
  std::mt19937 random(7);
  fake().n_lists_alone = 0;
  fake().n_graphs_launched = 0;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_NO_FATAL_FAILURE(
        Decode(std::uniform_int_distribution<std::int32_t>(1, kSequences)(random)));
  }
  const auto lists = fake().n_graphs_launched + fake().n_lists_alone;
  EXPECT_GE(lists, kSteps);
  EXPECT_GE(static_cast<double>(fake().n_graphs_launched) / static_cast<double>(lists), 0.95)
      << fake().n_lists_alone << " of " << lists << " lists came without a graph";
  EXPECT_GT(fake().n_lists_alone, 0);
}

INSTANTIATE_TEST_SUITE_P(Vendors, DriverSteps,
                         ::testing::Values(GpuVendorName::kCuda, GpuVendorName::kHip),
                         VendorTestName);

}  // namespace
}  // namespace fathom::testing
