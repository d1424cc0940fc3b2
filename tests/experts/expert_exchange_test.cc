// The exchange of experts alone: the bits of a single rank, exactly the bytes that its header
// promises, and an error where the buffers end.
#include "experts/exchange/expert_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "experts/exchange/expert_message.h"
#include "kernels/registry.h"
#include "tests/kernels/kernel_data.h"
#include "tests/testing/ranks.h"

namespace fathom::experts {
namespace {

using testing::Owned;
using testing::Random;
using testing::RunRanks;

constexpr std::int64_t kHidden = 384;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kExperts = 24;  // for 1, 2, 3, 4, 6 and 8 ranks
constexpr float kClamp = 10.0f;

// Experts whose bytes are random, finite numbers.
class Experts {
 public:
  Experts(WeightFormat format, ScaleFormat scale_format) {
    Random random(7);
    for (std::int64_t e = 0; e < kExperts; ++e) {
      experts_.push_back({Make(format, scale_format, kWidth, kHidden, random),
                          Make(format, scale_format, kHidden, kWidth, random),
                          Make(format, scale_format, kWidth, kHidden, random)});
    }
  }
  std::span<const ExpertWeights> view() const { return experts_; }

 private:
  Weight Make(WeightFormat format, ScaleFormat scale_format, std::int64_t n, std::int64_t k,
              Random& random) {
    Weight weight{.format = format, .scale_format = scale_format, .n = n, .k = k};
    weight.data = Keep(n * weight.RowBytes(), [&](std::int64_t) {
      const auto byte = static_cast<std::uint8_t>(random.Bits());
      const bool is_nan = format == WeightFormat::kFp8 && (byte & 0x7F) == 0x7F;
      return is_nan ? std::uint8_t{0x12} : byte;
    });
    const std::int64_t rows = format == WeightFormat::kFp4 ? n : (n + kFp8Block - 1) / kFp8Block;
    const std::int64_t n_scales = rows * weight.ScaleColumns();
    if (scale_format == ScaleFormat::kE8m0) {
      weight.scales = Keep(n_scales, [&](std::int64_t) {
        return static_cast<std::uint8_t>(112 + random.Below(10));
      });
      return weight;
    }
    floats_.push_back(random.Floats(1, n_scales, 1e-3f));
    weight.scales = reinterpret_cast<const std::byte*>(floats_.back().data.data());
    return weight;
  }
  template <class Byte>
  const std::byte* Keep(std::int64_t n, const Byte& byte) {
    bytes_.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) {
      bytes_.back().push_back(static_cast<std::byte>(byte(i)));
    }
    return bytes_.back().data();
  }

  std::vector<std::vector<std::byte>> bytes_;
  std::vector<Owned<float>> floats_;
  std::vector<ExpertWeights> experts_;
};

std::unique_ptr<Backend> MakeBackend(std::int64_t max_tokens, std::int64_t k) {
  std::unique_ptr<Backend> backend = *MakeCpuBackend({}, 1);
  EXPECT_TRUE(backend->Reserve({.max_tokens = max_tokens,
                                .max_linear_inputs = kHidden,
                                .hidden = kHidden,
                                .head_dim = 128,
                                .experts_per_token = k,
                                .n_experts = kExperts,
                                .moe_intermediate = kWidth}));
  return backend;
}

// Tokens, what they chose, and what the shared expert says of them. All rows together; rank r of
// data ranks has the r-th piece.
struct Tokens {
  Tokens(std::int64_t t, std::int64_t k, std::uint32_t seed)
      : x(Random(seed).Bf16s(t, kHidden)),
        ids(t, k),
        weights(Random(seed + 1).Floats(t, k)),
        shared(Random(seed + 2).Bf16s(t, kHidden)),
        positions(static_cast<std::size_t>(t)) {
    std::iota(positions.begin(), positions.end(), 5);
    Random random(seed + 3);
    for (std::int64_t row = 0; row < t; ++row) {
      std::set<std::int32_t> chosen;
      while (std::ssize(chosen) < k) {
        chosen.insert(random.Below(kExperts));
      }
      std::copy(chosen.begin(), chosen.end(), ids.view().Row(row));
      // Blocks whose largest number rounds to 224 times the scale: quantised again, the scale is
      // another one.
      x.at(row, 5) = ToBf16(226.0f);
      x.at(row, 128 + row % 128) = ToBf16(-225.0f * 0x1p-9f);
    }
  }
  std::int64_t size() const { return x.rows; }

  Owned<Bf16> x;
  Owned<std::int32_t> ids;
  Owned<float> weights;
  Owned<Bf16> shared;
  std::vector<std::int32_t> positions;
};

Owned<Bf16> Alone(const Experts& experts, const Tokens& tokens) {
  const std::int64_t k = tokens.ids.cols;
  const std::unique_ptr<Backend> backend = MakeBackend(tokens.size() + 1, k);
  Tokens copy = tokens;
  Owned<Bf16> rows(tokens.size() * k, kHidden);
  Owned<Bf16> y = tokens.shared;
  backend->ExpertRows(copy.x.view(), {copy.ids.view(), copy.weights.view()},
                      backend->BindExperts(0, experts.view()), kClamp, rows.view());
  backend->CombineExperts(rows.view(), y.view(), y.view());
  return y;
}

struct Case {
  ExpertPath path = ExpertPath::kFused;
  bool own_tokens = false;
  std::vector<std::int64_t> tokens_of_rank;  // own_tokens; otherwise their sum is of all
  int n_ranks() const { return static_cast<int>(tokens_of_rank.size()); }
  std::int64_t n_tokens() const {
    return std::accumulate(tokens_of_rank.begin(), tokens_of_rank.end(), std::int64_t{0});
  }
  std::int64_t max_tokens = 0;  // 0: as many as there are
  bool shared_talks = false;    // the shared expert, as that of tensor ranks does
};

std::string InWords(const Case& test) {
  std::string words = test.path == ExpertPath::kFused ? "fused" : "gathered";
  words += test.own_tokens ? ", own tokens" : ", the same tokens";
  for (const std::int64_t n : test.tokens_of_rank) {
    words += " " + std::to_string(n);
  }
  return words;
}

// One rank's run of several layers that have the same weights.
struct RankRun {
  Owned<Bf16> y;  // of the last layer
  std::int64_t n_bytes = 0;
  std::int64_t n_messages = 0;
  std::string error;
};

RankRun RunRank(Communicator& ranks, const Case& test, const Experts& experts, Tokens tokens,
                int n_layers) {
  const std::int64_t k = tokens.ids.cols;
  const auto begin = test.tokens_of_rank.begin();
  const std::int64_t first =
      test.own_tokens ? std::accumulate(begin, begin + ranks.rank(), std::int64_t{0}) : 0;
  const std::int64_t t = test.own_tokens ? begin[ranks.rank()] : tokens.size();
  const std::int64_t max_tokens = test.max_tokens > 0 ? test.max_tokens : test.n_tokens();
  const std::unique_ptr<Backend> backend = MakeBackend(max_tokens + 1, k);
  const std::unique_ptr<ExpertExchange> exchange =
      *MakeExpertExchange(*backend, ranks,
                          {.max_tokens = max_tokens,
                           .hidden = kHidden,
                           .experts_per_token = k,
                           .n_experts = kExperts,
                           .path = test.path,
                           .own_tokens = test.own_tokens});
  const ExpertHome home = ContiguousHomes(kExperts, ranks.size());
  RankRun run;
  Owned<Bf16> rows(t * k, kHidden);
  const Traffic before = ranks.traffic();
  for (int layer = 0; layer < n_layers && run.error.empty(); ++layer) {
    run.y = Owned<Bf16>(t, kHidden);
    const auto local = [&](Matrix<const Bf16> x, const Routing& routing, Matrix<Bf16> out) {
      for (std::int64_t i = 0; i < routing.ids.rows * k; ++i) {
        EXPECT_TRUE(routing.ids.data[i] == kRemoteExpert ||
                    home(0, routing.ids.data[i]) == ranks.rank());
      }
      backend->ExpertRows(x, routing, backend->BindExperts(0, experts.view()), kClamp, out);
      return Status();
    };
    const auto shared = [&] {
      if (test.shared_talks) {
        EXPECT_TRUE(ranks.Barrier());
      }
      std::copy_n(tokens.shared.view().Row(first), run.y.data.size(), run.y.data.begin());
      return Status();
    };
    const Status ran = exchange->Run(
        {.x = tokens.x.view().Rows(first, t),
         .routing = {tokens.ids.view().Rows(first, t), tokens.weights.view().Rows(first, t)},
         .positions = std::span(tokens.positions)
                          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(t)),
         .tokens_of_rank = test.tokens_of_rank,
         .home = home,
         .local = local,
         .shared = shared,
         .rows = rows.view(),
         .y = run.y.view()});
    if (!ran) run.error = ran.error().message;
  }
  run.n_bytes = ranks.traffic().n_bytes - before.n_bytes;
  run.n_messages = ranks.traffic().n_messages - before.n_messages;
  return run;
}

std::vector<RankRun> RunAll(const Case& test, const Experts& experts, const Tokens& tokens,
                            int n_layers = 1) {
  std::vector<RankRun> runs(static_cast<std::size_t>(test.n_ranks()));
  RunRanks(test.n_ranks(), [&](Communicator& ranks) {
    runs[static_cast<std::size_t>(ranks.rank())] = RunRank(ranks, test, experts, tokens, n_layers);
  });
  return runs;
}

// Rows [first, first + y.rows) of `expected`.
void ExpectRows(const Owned<Bf16>& expected, std::int64_t first, const Owned<Bf16>& y,
                const std::string& what) {
  ASSERT_LE(first + y.rows, expected.rows) << what;
  EXPECT_TRUE(std::equal(y.data.begin(), y.data.end(),
                         expected.data.begin() + static_cast<std::ptrdiff_t>(first * kHidden)))
      << what;
}

void ExpectSameBits(const Case& test, const Experts& experts, std::int64_t k) {
  const Tokens tokens(test.n_tokens(), k, 11);
  const Owned<Bf16> expected = Alone(experts, tokens);
  const std::vector<RankRun> runs = RunAll(test, experts, tokens, 2);
  std::int64_t first = 0;
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.error, "");
    ExpectRows(expected, first, run.y, InWords(test));
    first += test.own_tokens ? run.y.rows : 0;
  }
}

const std::vector<std::vector<std::int64_t>> kShares = {{1},
                                                        {1, 0},
                                                        {0, 1},
                                                        {37, 5},
                                                        {0, 0, 0},
                                                        {3, 0, 1},
                                                        {61, 1, 0, 7},
                                                        {64, 64, 64, 64},
                                                        {0, 130, 0, 3, 9, 1},
                                                        {1, 1, 1, 1, 1, 1, 1, 1},
                                                        {0, 0, 0, 0, 0, 0, 0, 23}};

TEST(ExpertExchangeTest, GivesTheBitsOfASingleRank) {
  const Experts experts(WeightFormat::kFp4, ScaleFormat::kE8m0);
  for (const std::vector<std::int64_t>& shares : kShares) {
    for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
      for (const bool own_tokens : {false, true}) {
        for (const std::int64_t k : {1, 6, 11}) {  // fewer than ranks, and more
          ExpectSameBits({path, own_tokens, shares, 0, /*shared_talks=*/!own_tokens}, experts, k);
        }
      }
    }
  }
}

TEST(ExpertExchangeTest, GivesTheBitsOfASingleRankWithFp8Experts) {
  for (const ScaleFormat scales : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
    const Experts experts(WeightFormat::kFp8, scales);
    for (const bool own_tokens : {false, true}) {
      ExpectSameBits({ExpertPath::kFused, own_tokens, {61, 1, 0, 7}}, experts, 6);
    }
  }
}

// Counts the bytes again by the formulas in the header of ExpertExchange.
std::int64_t ExpectedBytes(const Case& test, const Tokens& tokens, int rank) {
  const std::int64_t k = tokens.ids.cols;
  const int n_ranks = test.n_ranks();
  const ExpertHome home = ContiguousHomes(kExperts, n_ranks);
  const auto owner = [&](std::int64_t row) {
    if (!test.own_tokens) {
      for (int r = 0; r < n_ranks; ++r) {
        if (row < tokens.size() * (r + 1) / n_ranks) return r;
      }
    }
    std::int64_t end = 0;
    for (int r = 0;; ++r) {
      end += test.tokens_of_rank[static_cast<std::size_t>(r)];
      if (row < end) return r;
    }
  };
  std::int64_t bytes = 0;
  std::int64_t n_mine = 0;
  for (std::int64_t row = 0; row < tokens.size(); ++row) {
    std::set<int> others;
    for (const std::int32_t id : tokens.ids.view().RowSpan(row)) {
      const int computes = home(0, id);
      if (test.path == ExpertPath::kGather) {
        bytes += computes == rank ? (n_ranks - 1) * 2 * kHidden : 0;
      } else if (computes == rank && owner(row) != rank) {
        bytes += 2 * kHidden;
      } else if (computes != rank && owner(row) == rank && test.own_tokens) {
        others.insert(computes);
        bytes += 12;
      }
    }
    n_mine += owner(row) == rank ? 1 : 0;
    bytes += std::ssize(others) * (kHidden + kHidden / 128);
  }
  if (test.path == ExpertPath::kFused && test.own_tokens) {
    bytes += n_mine > 0 ? 8 * (n_ranks - 1) : 0;
  } else if (test.path == ExpertPath::kFused) {
    bytes += n_mine * 2 * kHidden * (n_ranks - 1);
  } else if (test.own_tokens) {
    bytes += n_mine * (2 * kHidden + 12 * k) * (n_ranks - 1);
  }
  return bytes;
}

TEST(ExpertExchangeTest, SendsTheBytesThatItsHeaderSays) {
  const Experts experts(WeightFormat::kFp4, ScaleFormat::kE8m0);
  for (const std::vector<std::int64_t>& shares : kShares) {
    for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
      for (const bool own_tokens : {false, true}) {
        const Case test = {path, own_tokens, shares};
        const Tokens tokens(test.n_tokens(), 6, 3);
        const std::vector<RankRun> runs = RunAll(test, experts, tokens);
        for (int rank = 0; rank < test.n_ranks(); ++rank) {
          EXPECT_EQ(runs[static_cast<std::size_t>(rank)].n_bytes, ExpectedBytes(test, tokens, rank))
              << InWords(test) << ", rank " << rank;
        }
      }
    }
  }
}

TEST(ExpertExchangeTest, TakesAsManyTokensAsItsBuffersHoldAndSendsNothingOfMore) {
  const Experts experts(WeightFormat::kFp4, ScaleFormat::kE8m0);
  for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
    for (const bool own_tokens : {false, true}) {
      Case test = {path, own_tokens, {20, 0, 13, 1}};
      const Tokens tokens(test.n_tokens(), 6, 3);
      test.max_tokens = test.n_tokens();
      for (const RankRun& run : RunAll(test, experts, tokens)) {
        EXPECT_EQ(run.error, "");
      }
      test.max_tokens = test.n_tokens() - 1;
      for (const RankRun& run : RunAll(test, experts, tokens)) {
        EXPECT_EQ(run.error,
                  "exchange of experts: expected at most 33 tokens (its buffers), found 34");
        EXPECT_EQ(run.n_messages, 0);
      }
    }
  }
}

TEST(ExpertExchangeTest, TokensThatFillTheBatchAreNeitherSentNorComputed) {
  const Experts experts(WeightFormat::kFp4, ScaleFormat::kE8m0);
  for (const ExpertPath path : {ExpertPath::kGather, ExpertPath::kFused}) {
    for (const bool own_tokens : {false, true}) {
      const Case test = {path, own_tokens, {9, 6}};
      Tokens tokens(test.n_tokens(), 6, 3);
      const Owned<Bf16> expected = Alone(experts, tokens);
      for (const std::int64_t row : {4, 8, 9}) {
        std::fill_n(tokens.ids.view().Row(row), 6, kRemoteExpert);
      }
      const std::vector<RankRun> runs = RunAll(test, experts, tokens);
      std::int64_t n_bytes = 0;
      for (int rank = 0; rank < 2; ++rank) {
        const Owned<Bf16>& y = runs[static_cast<std::size_t>(rank)].y;
        const std::int64_t first = own_tokens && rank == 1 ? 9 : 0;
        for (std::int64_t row = 0; row < y.rows; ++row) {
          const std::int64_t of_all = first + row;
          if (of_all == 4 || of_all == 8 || of_all == 9) continue;
          EXPECT_TRUE(std::equal(y.view().Row(row), y.view().Row(row) + kHidden,
                                 expected.view().Row(of_all)))
              << InWords(test) << ", token " << of_all;
        }
        n_bytes += runs[static_cast<std::size_t>(rank)].n_bytes;
      }
      if (path == ExpertPath::kFused && own_tokens) {
        // 12 tokens: their outputs back, themselves out where a pair goes there, and two counts.
        std::int64_t expected_bytes = 2 * 8;
        const ExpertHome home = ContiguousHomes(kExperts, 2);
        for (std::int64_t row = 0; row < 15; ++row) {
          std::int64_t n_away = 0;
          for (const std::int32_t id : tokens.ids.view().RowSpan(row)) {
            n_away += id != kRemoteExpert && home(0, id) != (row < 9 ? 0 : 1) ? 1 : 0;
          }
          expected_bytes += n_away * (12 + 2 * kHidden) + (n_away > 0 ? kHidden + 3 : 0);
        }
        EXPECT_EQ(n_bytes, expected_bytes);
      }
    }
  }
}

// One token of Flash whose 6 experts are on 6 other ranks: 24,840 bytes out, 49,152 back.
TEST(ExpertExchangeTest, BytesOfFlash) {
  EXPECT_EQ(DispatchBytes({.n_tokens = 6, .n_pairs = 6}, 4096), 24'840);
}

}  // namespace
}  // namespace fathom::experts
