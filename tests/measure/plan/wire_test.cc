#include "measure/plan/wire.h"

#include <gtest/gtest.h>

#include "measure/slice/shapes.h"
#include "tests/measure/plan/machines.h"

namespace fathom::measure::plan {
namespace {

using testing::RoundMachine;

TEST(WireTest, AloneNothingTravels) {
  EXPECT_EQ(BytesPerToken(FlashConfig(), {}, ExpertPath::kGather).Total() -
                BytesPerToken(FlashConfig(), {}, ExpertPath::kGather).logits,
            0);
  EXPECT_EQ(BytesPerToken(FlashConfig(), {}, ExpertPath::kFused).logits, 0);
}

// docs/cluster.md, with d = 4096, P = 8, 6 experts, 43 layers, all ranks together.
TEST(WireTest, FlashOnTwoTensorRanks) {
  const ParallelLayout layout = {.n_tensor = 2, .expert_parallel = true};
  const WireBytes bytes = BytesPerToken(FlashConfig(), layout, ExpertPath::kGather);
  EXPECT_DOUBLE_EQ(bytes.embedding, 2 * 4096);
  // For each rank and sum: half of 4 parts, then half of the sums.
  EXPECT_DOUBLE_EQ(bytes.sums, 43.0 * 2 * 2 * (4 * 4096 * 4 / 2 + 4 * 4096 / 2));
  EXPECT_DOUBLE_EQ(bytes.experts, 43.0 * 6 * 2 * 4096);
  EXPECT_DOUBLE_EQ(bytes.streams, 0);
  EXPECT_DOUBLE_EQ(bytes.logits, 4.0 * 129280 / 2);
}

// 21 layers of Flash choose 512 rows, of 8 bytes in a list.
TEST(WireTest, TensorRanksTellWhichRowsTheyChoose) {
  const auto choice = [](int n_tensor, const StepTokens& step) {
    return BytesPerToken(FlashConfig(), {.n_tensor = n_tensor}, ExpertPath::kGather, step).choice;
  };
  EXPECT_EQ(choice(2, {.n_tokens = 64, .position = 2'000}), 0);
  EXPECT_EQ(choice(1, {.n_tokens = 64, .position = 60'000}), 0);
  EXPECT_DOUBLE_EQ(choice(2, {.n_tokens = 64, .position = 2'100}), 21.0 * 4096);
  EXPECT_DOUBLE_EQ(choice(8, {.n_tokens = 64, .position = 2'100}), 21.0 * 4096 * 7);
  EXPECT_DOUBLE_EQ(choice(8, {.n_tokens = 1, .position = 60'000}), 21.0 * 4096 * 7 * 8);
  // Five tokens on two ranks: the one in the middle is cut.
  EXPECT_DOUBLE_EQ(choice(2, {.n_tokens = 5, .position = 60'000}), 21.0 * 4096 * 6 / 5);
}

// 21 layers of Flash have rows of 584 bytes, of which 512 are chosen; every rank has a list of
// every token.
TEST(WireTest, TensorRanksSendTheRowsThatTheyDivide) {
  const auto bytes = [](int n_tensor, const StepTokens& step) {
    return BytesPerToken(FlashConfig(), {.n_tensor = n_tensor, .decode_context_parallel = true},
                         ExpertPath::kGather, step);
  };
  EXPECT_DOUBLE_EQ(bytes(2, {.n_tokens = 8, .position = 60'000}).rows, 21.0 * 512 * 584);
  EXPECT_DOUBLE_EQ(bytes(8, {.n_tokens = 8, .position = 60'000}).rows, 21.0 * 512 * 584 * 7);
  EXPECT_DOUBLE_EQ(bytes(8, {.n_tokens = 8, .position = 60'000}).choice, 21.0 * 4096 * 8 * 7);
  // All 100 visible rows, and no row twice for the tokens of one sequence.
  EXPECT_DOUBLE_EQ(bytes(2, {.n_tokens = 8, .position = 399}).rows, 21.0 * 100 * 584);
  EXPECT_EQ(bytes(2, {.n_tokens = 8, .position = 399}).choice, 0);
  EXPECT_DOUBLE_EQ(bytes(2, {.n_tokens = 8, .position = 399, .n_sequences = 1}).rows,
                   21.0 * 100 * 584 / 8);
  EXPECT_DOUBLE_EQ(bytes(2, {.n_tokens = 512, .position = 65'535, .n_sequences = 1}).rows,
                   21.0 * 16'384 * 584 / 512);
}

TEST(WireTest, StagesSendTheStreams) {
  const WireBytes bytes = BytesPerToken(FlashConfig(), {.n_stages = 4}, ExpertPath::kGather);
  EXPECT_DOUBLE_EQ(bytes.streams, 3 * 32768);  // 32 KiB a token
  EXPECT_DOUBLE_EQ(bytes.logits, 4.0 * 129280);
  EXPECT_DOUBLE_EQ(bytes.Total(), bytes.streams + bytes.logits);
}

// docs/spec/parallel.md 4.1: E4M3 with scales and routes out, BF16 back.
TEST(WireTest, FusedIsTheFormula) {
  const ModelConfig config = FlashConfig();
  // 255 of 256 experts are remote on 256 ranks, each on its own: nearly all 6 are remote.
  const ParallelLayout wide = {.n_data = 256, .expert_parallel = true};
  const double remote = 6 * 255.0 / 256;
  EXPECT_NEAR(RemoteRanks(config, 256), remote, 1e-9);
  EXPECT_NEAR(ExpertBytesFused(config, wide), remote * (4096 + 32 + 12 + 2 * 4096), 1e-6);
  // Two ranks: the other rank has at least one of six experts almost always.
  double none = 1;
  for (int i = 0; i < 6; ++i) none *= (128.0 - i) / (256.0 - i);
  const ParallelLayout two = {.n_data = 2, .expert_parallel = true};
  EXPECT_NEAR(RemoteRanks(config, 2), 1 - none, 1e-12);
  EXPECT_NEAR(ExpertBytesFused(config, two), (1 - none) * 4128 + 3 * (12 + 8192), 1e-6);
  EXPECT_DOUBLE_EQ(ExpertBytesGathered(config, two), 8192.0 + 6 * 12 + 6 * 8192);
}

TEST(WireTest, PeersAreWhereTheDevicesAre) {
  const Hardware machine = RoundMachine(4, 8);
  EXPECT_EQ(MakePeers(machine, 8).in_node, 7);
  EXPECT_EQ(MakePeers(machine, 8).in_network, 0);
  EXPECT_EQ(MakePeers(machine, 16).in_node, 7);
  EXPECT_EQ(MakePeers(machine, 16).in_network, 8);
  // Groups of 3 on nodes of 4: one group has its last member alone on the next node.
  EXPECT_EQ(MakePeers(RoundMachine(3, 4), 3).in_network, 2);
  EXPECT_EQ(MakePeers(machine, 1).all(), 0);
}

TEST(WireTest, ARoundEndsWithItsSlowerLink) {
  Hardware machine = RoundMachine(2, 2);
  // 100 KB over 100 GB/s: 1 us; half of it over 10 GB/s: 5 us.
  EXPECT_NEAR(RoundSeconds(machine, {.in_node = 1}, 1e5), 2e-6, 1e-12);
  EXPECT_NEAR(RoundSeconds(machine, {.in_node = 1, .in_network = 1}, 1e5), 15e-6, 1e-12);
  machine.node.per_message = 3e-6;
  EXPECT_NEAR(RoundSeconds(machine, {.in_node = 2}, 0), 7e-6, 1e-12);
  EXPECT_EQ(RoundSeconds(machine, {}, 1e5), 0);
}

}  // namespace
}  // namespace fathom::measure::plan
