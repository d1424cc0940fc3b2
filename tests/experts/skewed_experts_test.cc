// Workloads whose popular experts follow a Zipf law: what balancing them comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "experts/balance/expert_rebalancer.h"
#include "experts/expert_parts.h"
#include "tests/experts/expert_ranks.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

constexpr double kAllowed = 1.1;

// 1 / rank^exponent for a shuffled order of experts.
std::vector<double> ZipfWeights(std::int64_t n_experts, double exponent, std::mt19937& random) {
  std::vector<double> weights;
  for (std::int64_t i = 1; i <= n_experts; ++i) {
    weights.push_back(std::pow(static_cast<double>(i), -exponent));
  }
  std::shuffle(weights.begin(), weights.end(), random);
  return weights;
}

// k different experts, each drawn by its weight.
std::vector<std::int32_t> Draw(std::vector<double> weights, std::int64_t k, std::mt19937& random) {
  std::vector<std::int32_t> chosen;
  for (std::int64_t i = 0; i < k; ++i) {
    const auto expert =
        std::discrete_distribution<std::int32_t>(weights.begin(), weights.end())(random);
    weights[static_cast<std::size_t>(expert)] = 0;
    chosen.push_back(expert);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

double MaxOverMean(const std::vector<std::int64_t>& loads) {
  const auto sum =
      static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  return static_cast<double>(*std::max_element(loads.begin(), loads.end())) *
         static_cast<double>(loads.size()) / sum;
}

// --- A trace of one layer, as large as those of Flash and Pro ---

struct TraceCase {
  const char* name;
  ExpertCounts counts;
  double exponent;
};

class ExpertTrace : public ::testing::TestWithParam<TraceCase> {};

using Trace = std::vector<std::vector<std::int32_t>>;  // the experts of each token

std::vector<std::int64_t> RankLoads(const ReplicaMap& map, const Trace& trace) {
  constexpr std::int32_t kSequence = 1000;
  std::vector<std::int64_t> loads(static_cast<std::size_t>(map.n_ranks()), 0);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    for (const std::int32_t expert : trace[i]) {
      ++loads[static_cast<std::size_t>(
          map.FindRank(static_cast<std::int32_t>(i) % kSequence, expert))];
    }
  }
  return loads;
}

// No placement does better: the load of one replica of the expert that is split the least well,
// over what a rank has on average. Giving the heaviest replica's expert one more is best here.
double LowestPossible(const std::vector<float>& load, const ExpertCounts& counts) {
  std::vector<double> n_replicas(load.size(), 1);
  const auto per_replica = [&](std::size_t e) {
    return static_cast<double>(load[e]) / n_replicas[e];
  };
  std::size_t heaviest = 0;
  for (std::int64_t i = counts.n_logical; i <= counts.n_physical; ++i) {
    for (std::size_t e = 0; e < load.size(); ++e) {
      heaviest = per_replica(e) > per_replica(heaviest) ? e : heaviest;
    }
    n_replicas[heaviest] += i < counts.n_physical ? 1 : 0;
  }
  const double mean = static_cast<double>(std::accumulate(load.begin(), load.end(), 0.0)) /
                      static_cast<double>(counts.n_ranks);
  return std::max(1.0, per_replica(heaviest) / mean);
}

// Half of the tokens decide about the placement, the other half are served by it.
TEST_P(ExpertTrace, LaterTokensFindRanksThatAreEvenlyBusy) {
  const ExpertCounts& counts = GetParam().counts;
  constexpr std::size_t kTraceTokens = 16000;
  std::mt19937 random(11);
  const std::vector<double> weights = ZipfWeights(counts.n_logical, GetParam().exponent, random);
  Trace first, second;
  for (std::size_t i = 0; i < kTraceTokens; ++i) {
    first.push_back(Draw(weights, 6, random));
    second.push_back(Draw(weights, 6, random));
  }
  std::vector<float> load(weights.size(), 0);
  for (const auto& experts : first) {
    for (const std::int32_t expert : experts) {
      load[static_cast<std::size_t>(expert)] += 1;
    }
  }
  const ReplicaMap before(3, counts, InitialPlacement(counts));
  const ReplicaMap after(3, counts, BalanceExperts(load, counts));
  ASSERT_LE(LowestPossible(load, counts), kAllowed) << "no placement would do";
  EXPECT_GT(MaxOverMean(RankLoads(before, second)), kAllowed);
  EXPECT_LE(MaxOverMean(RankLoads(after, second)), kAllowed);
}

INSTANTIATE_TEST_SUITE_P(All, ExpertTrace,
                         ::testing::Values(TraceCase{"flash_8_ranks", {256, 320, 8}, 1.0},
                                           TraceCase{"flash_16_ranks", {256, 320, 16}, 1.0},
                                           TraceCase{"flash_16_ranks_steeper", {256, 320, 16}, 1.2},
                                           TraceCase{"flash_32_ranks_flatter", {256, 320, 32}, 0.8},
                                           TraceCase{"pro_16_ranks", {384, 480, 16}, 1.0}),
                         [](const auto& test) { return std::string(test.param.name); });

// --- A model ---

// The lowest max over mean of two ranks that any placement gives: all numbers of replicas and all
// ways to pack them are tried.
double LowestOfTwoRanks(const std::vector<double>& load, std::size_t n_physical) {
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / 2;
  double lowest = 2;
  std::vector<std::size_t> n_replicas(load.size(), 1);
  const auto pack = [&] {
    std::vector<double> replicas;
    for (std::size_t e = 0; e < load.size(); ++e) {
      replicas.insert(replicas.end(), n_replicas[e], load[e] / static_cast<double>(n_replicas[e]));
    }
    for (unsigned set = 0; set < 1u << n_physical; ++set) {
      if (std::popcount(set) != static_cast<int>(n_physical / 2)) continue;
      double rank = 0;
      for (std::size_t p = 0; p < n_physical; ++p) {
        rank += (set >> p & 1u) != 0 ? replicas[p] : 0;
      }
      lowest = std::min(lowest, std::max(rank, 2 * mean - rank) / mean);
    }
  };
  const std::function<void(std::size_t, std::size_t)> give = [&](std::size_t expert,
                                                                 std::size_t n_left) {
    if (expert + 1 == load.size()) {
      n_replicas[expert] = 1 + n_left;
      pack();
      return;
    }
    for (std::size_t n = 0; n <= n_left; ++n) {
      n_replicas[expert] = 1 + n;
      give(expert + 1, n_left - n);
    }
  };
  give(0, n_physical - load.size());
  return lowest;
}

// Tokens whose experts in the first layer, which routes by token, follow a Zipf law; the popular
// ones begin on the first rank, without replicas.
std::vector<Token> SkewedTokens(const std::filesystem::path& directory, const ModelConfig& config,
                                std::int64_t n_tokens) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  EXPECT_TRUE(checkpoint.has_value());
  const TensorView* table = checkpoint->Find("layers.0.ffn.gate.tid2eid");
  EXPECT_NE(table, nullptr);
  std::vector<std::int64_t> experts(
      static_cast<std::size_t>(config.vocab_size * config.num_experts_per_tok));
  std::memcpy(experts.data(), table->bytes.data(), experts.size() * sizeof(std::int64_t));
  std::mt19937 random(5);
  std::vector<double> weights(static_cast<std::size_t>(config.n_routed_experts));
  double popularity = 1;
  for (const std::size_t expert : {2, 3, 4, 0, 1, 5, 6, 7}) {
    weights[expert] = 1 / popularity++;
  }
  std::vector<Token> tokens;
  while (std::ssize(tokens) < n_tokens) {
    const std::vector<std::int32_t> wanted = Draw(weights, config.num_experts_per_tok, random);
    const auto start = static_cast<Token>(random() % static_cast<unsigned>(config.vocab_size));
    for (Token i = 0; i < config.vocab_size; ++i) {
      const auto token = static_cast<Token>((start + i) % config.vocab_size);
      const auto row = std::span(experts).subspan(static_cast<std::size_t>(token) * wanted.size(),
                                                  wanted.size());
      if (std::is_permutation(row.begin(), row.end(), wanted.begin())) {
        tokens.push_back(token);
        break;
      }
    }
  }
  return tokens;
}

using Loads = std::vector<std::vector<std::int64_t>>;  // [layer][expert]

Loads MeasureLoads(Model& model) {
  Loads loads;
  for (std::int64_t layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    const auto of_layer = PlacedExperts::FindIn(model).Loads(layer);
    loads.emplace_back(of_layer.begin(), of_layer.end());
  }
  return loads;
}

// The results of one rank for the first half of the tokens and for all, with the experts rebalanced
// between the halves.
struct RankRecord {
  Loads first;
  Loads all;
  RebalanceReport report;
};

RankRecord RunHalves(Model& model, std::span<const Token> tokens) {
  constexpr std::size_t kBatch = 128;
  RankRecord record;
  ExpertRebalancer rebalancer(PlacedExperts::FindIn(model));
  Batch batch;
  for (std::size_t position = 0; position < tokens.size(); position += kBatch) {
    if (position == tokens.size() / 2) {
      record.first = MeasureLoads(model);
      EXPECT_TRUE(rebalancer.Start());
      EXPECT_TRUE(rebalancer.Finish());
    }
    batch.Clear();
    batch.Add(0, static_cast<std::int32_t>(position), tokens.subspan(position, kBatch));
    const Status ran = model.Forward(batch);
    EXPECT_TRUE(ran) << ran.error().message;
  }
  record.all = MeasureLoads(model);
  record.report = rebalancer.report();
  return record;
}

TEST(SkewedModel, RanksAreEvenlyBusyAfterRebalancing) {
  constexpr std::int64_t kHalf = 768;
  constexpr std::int64_t kRedundant = 2;  // 25 %
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const ModelConfig config = *ReadModelConfig(directory / "config.json");
  const std::vector<Token> tokens = SkewedTokens(directory, config, 2 * kHalf);
  std::vector<RankRecord> records(2);
  testing::RunRanks(2, [&](Communicator& ranks) {
    const testing::ExpertRanks cut(config, ranks, kRedundant);
    testing::TestModel loaded(
        directory,
        {.max_context = 2 * kHalf, .max_batch_tokens = 128, .parts = ShardedParts(&cut.ranks())},
        {.n_threads = 1});
    records[static_cast<std::size_t>(ranks.rank())] = RunHalves(loaded.model(), tokens);
  });
  const auto n_experts = static_cast<std::size_t>(config.n_routed_experts);
  for (std::size_t layer = 0; layer < records[0].all.size(); ++layer) {
    std::vector<std::int64_t> before(2, 0), after(2, 0);  // of each rank
    std::vector<double> load(n_experts, 0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t e = 0; e < n_experts; ++e) {
        const std::int64_t first = records[rank].first[layer][e];
        before[rank] += first;
        after[rank] += records[rank].all[layer][e] - first;
        load[e] += static_cast<double>(records[rank].all[layer][e] - first);
      }
    }
    const std::int64_t n_chosen = kHalf * config.num_experts_per_tok;
    EXPECT_EQ(before[0] + before[1], n_chosen) << "every choice counts once";
    EXPECT_EQ(after[0] + after[1], n_chosen);
    const double lowest = LowestOfTwoRanks(load, n_experts + kRedundant);
    ASSERT_LE(lowest, kAllowed) << "layer " << layer << ": no placement would do";
    EXPECT_LE(MaxOverMean(after), kAllowed)
        << "layer " << layer << ", was " << MaxOverMean(before) << ", could be " << lowest;
    if (layer == 0) {
      EXPECT_GT(MaxOverMean(before), 1.2);
    }
  }
  const RebalanceReport& report = records[0].report;
  EXPECT_LE(report.imbalance_after, kAllowed);
  EXPECT_GT(report.imbalance_before, report.imbalance_after);
  EXPECT_EQ(report.imbalance_after, records[1].report.imbalance_after);
  EXPECT_EQ(report.n_moved_experts, records[1].report.n_moved_experts);
}

}  // namespace
}  // namespace fathom::experts
