// Equal bits from any number of ranks: tensor ranks, expert ranks, data ranks and stages, in every
// layout of the model, with every exchange of the experts' outputs.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/model_ranks.h"
#include "experts/expert_parts.h"
#include "tests/distributed/expected_sequence.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::distributed {
namespace {

using testing::Sequence;

constexpr std::int64_t kTokens = 150;  // more than a window and a row of ratio 128

class Ranks : public testing::ExpectedSequence {
 protected:
  void SetUp() override { RunExpected(Options(nullptr), kTokens, 1); }

  static ModelOptions Options(const ModelRanks* ranks) {
    return {.max_sequences = 5,
            .max_context = kTokens,
            .max_batch_tokens = kTokens,
            .max_logit_rows = 32,
            .with_draft = true,
            .parts = experts::ShardedParts(ranks)};
  }

  static std::string InWords(const RankCounts& counts) {
    return std::to_string(counts.n_tensor) + " tensor ranks, " + std::to_string(counts.n_data) +
           " data ranks, " + std::to_string(counts.n_stages) + " stages, experts " +
           (!counts.expert_parallel                    ? "whole"
            : counts.expert_path == ExpertPath::kFused ? "cut, fused"
                                                       : "cut, gathered") +
           (counts.decode_context_parallel ? ", rows divided" : "");
  }

  // Calls run(model, rank) on every rank of such a model.
  void RunModels(const RankCounts& counts, const std::function<void(Model&, int)>& run) {
    const int n_ranks = counts.n_tensor * counts.n_data * counts.n_stages;
    testing::RunRanks(n_ranks, [&](Communicator& all) {
      Result<std::unique_ptr<RankGroups>> groups = RankGroups::Join(all, config_, weights_, counts);
      ASSERT_TRUE(groups.has_value()) << groups.error().message;
      ModelRanks ranks = (*groups)->ranks();
      ranks.shard.least_index_work = 0;  // tensor ranks share every choice of rows
      ranks.shard.most_gathered_rows = most_gathered_rows_;
      ModelOptions options = Options(&ranks);
      options.weights = memory_;
      testing::TestModel loaded(*directory_, options, {.n_threads = 1, .memory = backend_memory_});
      run(loaded.model(), all.rank());
    });
  }

  void RunCut(const RankCounts& counts) {
    RunModels(counts, [&](Model& model, int rank) {
      // A prompt, a chunk, single tokens.
      const Sequence found = testing::RunAlone(model, tokens_, {100, 47, 1});
      if (rank == 0) {
        testing::ExpectSameBits(*expected_, found, kTokens, InWords(counts));
      }
    });
  }

  // Several sequences that come and go; most steps leave some data rank without tokens.
  std::vector<Sequence> RunCompany(Model& model) {
    const auto begin = [&](std::int32_t slot, std::int64_t n) {
      return Sequence(config_, slot, testing::RandomTokens(config_, n, static_cast<unsigned>(n)));
    };
    std::vector<Sequence> all = {begin(0, 131), begin(3, 38), begin(1, 3), begin(4, 9)};
    Sequence &a = all[0], &b = all[1], &c = all[2], &d = all[3];
    testing::Step(model, {{&a, 97}, {&b, 7}, {&c, 1}});
    testing::Step(model, {{&c, 1}, {&a, 1}});
    testing::Step(model, {{&b, 30}}, testing::NextToken::kUnknown);
    testing::DraftKept(model, {&b});
    testing::Step(model, {{&d, 5}, {&b, 1}, {&a, 32}, {&c, 1}});
    testing::Step(model, {{&a, 1}});
    testing::Step(model, {{&d, 4}});
    return all;
  }

  // Returns how many of the cuts are possible.
  int ExpectSameCompany(const std::vector<RankCounts>& cuts) {
    testing::TestModel alone(*directory_, Options(nullptr), {.n_threads = 1});
    const std::vector<Sequence> expected = RunCompany(alone.model());
    int n_cuts = 0;
    for (const RankCounts& counts : cuts) {
      if (!CheckCounts(config_, counts, counts.n_tensor * counts.n_data * counts.n_stages)) {
        continue;
      }
      RunModels(counts, [&](Model& model, int rank) {
        const std::vector<Sequence> found = RunCompany(model);
        for (std::size_t i = 0; rank == 0 && i < found.size(); ++i) {
          testing::ExpectSameBits(expected[i], found[i], std::ssize(found[i].tokens),
                                  InWords(counts) + ", sequence " + std::to_string(i));
        }
      });
      ++n_cuts;
    }
    return n_cuts;
  }

  WeightMemory memory_;  // of every rank
  testing::TestMemory backend_memory_ = testing::TestMemory::kHost;
  std::int64_t most_gathered_rows_ = kMostGatheredRows;
};

TEST_P(Ranks, AnyCutGivesTheSameBits) {
  int n_cuts = 0;
  for (const int n_tensor : {1, 2, 4, 8}) {
    for (const int n_stages : {1, 2, 4, 8}) {
      for (const std::optional<ExpertPath> path :
           {std::optional<ExpertPath>(), std::optional(ExpertPath::kGather),
            std::optional(ExpertPath::kFused)}) {
        const RankCounts counts = {.n_tensor = n_tensor,
                                   .n_stages = n_stages,
                                   .expert_parallel = path.has_value(),
                                   .expert_path = path};
        const int n_ranks = n_tensor * n_stages;
        const bool says_it_again = n_tensor == 1 && path.has_value();
        if (n_ranks == 1 || n_ranks > 8 || says_it_again ||
            !CheckCounts(config_, counts, n_ranks)) {
          continue;
        }
        RunCut(counts);
        ++n_cuts;
      }
    }
  }
  EXPECT_GE(n_cuts, 5);
}

// In each step the tokens of one sequence choose rows, among other sequences.
TEST_P(Ranks, TensorRanksGiveTheSameBitsForAnyCompany) {
  EXPECT_GE(ExpectSameCompany(
                {{.n_tensor = 2, .expert_parallel = true}, {.n_tensor = 4}, {.n_tensor = 8}}),
            1);
}

// In one gathering a layer, and in as many as there can be.
TEST_P(Ranks, DividedRowsGiveTheSameBits) {
  int n_cuts = 0;
  for (const std::int64_t most_rows : {kMostGatheredRows, std::int64_t{0}}) {
    most_gathered_rows_ = most_rows;
    for (const int n_tensor : {2, 4, 8}) {
      for (const int n_stages : {1, 2}) {
        const RankCounts counts = {.n_tensor = n_tensor,
                                   .n_stages = n_stages,
                                   .expert_parallel = n_stages == 1,
                                   .decode_context_parallel = true};
        if (n_tensor * n_stages <= 8 && CheckCounts(config_, counts, n_tensor * n_stages)) {
          RunCut(counts);
          ++n_cuts;
        }
      }
    }
    n_cuts += ExpectSameCompany({{.n_tensor = 2, .decode_context_parallel = true},
                                 {.n_tensor = 4, .decode_context_parallel = true}});
  }
  EXPECT_GE(n_cuts, 6);
}

TEST_P(Ranks, DataRanksGiveTheSameBitsForAnyCompany) {
  std::vector<RankCounts> cuts;
  for (const int n_data : {2, 4, 5, 8}) {
    for (const int n_stages : {1, 2}) {
      for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
        if (n_data * n_stages <= 8) {
          cuts.push_back({.n_stages = n_stages,
                          .expert_parallel = true,
                          .n_data = n_data,
                          .expert_path = path});
        }
      }
    }
  }
  EXPECT_GE(ExpectSameCompany(cuts), 4);
}

// Each rank has copied what it has, and has no more files.
TEST_P(Ranks, HugePagesGiveTheSameBits) {
  memory_.huge_pages = true;
  int n_cuts = 0;
  for (const RankCounts& counts :
       {RankCounts{.n_tensor = 2}, RankCounts{.n_tensor = 2, .expert_parallel = true},
        RankCounts{.n_tensor = 2, .n_stages = 2, .expert_parallel = true},
        RankCounts{.n_stages = 3}, RankCounts{.expert_parallel = true, .n_data = 2}}) {
    if (CheckCounts(config_, counts, counts.n_tensor * counts.n_data * counts.n_stages)) {
      RunCut(counts);
      ++n_cuts;
    }
  }
  EXPECT_GE(n_cuts, 2);
}

// Ranks send and receive in memory that the host reaches.
TEST_P(Ranks, RemoteMemoryGivesTheSameBits) {
  backend_memory_ = testing::TestMemory::kRemoteAwaited;
  int n_cuts = 0;
  for (const RankCounts& counts :
       {RankCounts{.n_tensor = 2, .expert_parallel = true, .expert_path = ExpertPath::kGather},
        RankCounts{.n_tensor = 2, .expert_parallel = true, .expert_path = ExpertPath::kFused},
        RankCounts{.n_tensor = 2, .n_stages = 2},
        RankCounts{.n_tensor = 2, .decode_context_parallel = true}}) {
    if (CheckCounts(config_, counts, counts.n_tensor * counts.n_data * counts.n_stages)) {
      RunCut(counts);
      ++n_cuts;
    }
  }
  EXPECT_GE(n_cuts, 2);
  EXPECT_GE(ExpectSameCompany(
                {{.expert_parallel = true, .n_data = 2, .expert_path = ExpertPath::kGather},
                 {.expert_parallel = true, .n_data = 2, .expert_path = ExpertPath::kFused}}),
            1);
}

INSTANTIATE_TEST_SUITE_P(All, Ranks, testing::AllCheckpoints(), testing::NameOfCase);

}  // namespace
}  // namespace fathom::distributed
