// Routing traces, replayed without weights: the pool against LRU, LFU and the optimum, which knows
// the future.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experts/streaming/slot_directory.h"

namespace fathom::experts {
namespace {

constexpr std::uint32_t kTraceExperts = 64;  // of a layer
constexpr std::uint32_t kTraceLayers = 6;
constexpr std::size_t kTraceKeys = kTraceExperts * kTraceLayers;
constexpr std::size_t kTraceSlots = 60;
constexpr int kTraceTokens = 6000;

// By token: the distinct experts of all layers, ascending.
using Trace = std::vector<std::vector<std::uint32_t>>;

// Six experts of each layer, by rank: rank 0 is drawn most often; `expert_of` names them.
Trace MakeTrace(double skew, const std::function<std::uint32_t(int token, std::uint32_t layer,
                                                               std::uint32_t rank)>& expert_of) {
  std::mt19937 random(7);
  std::vector<double> weights;
  for (std::uint32_t rank = 0; rank < kTraceExperts; ++rank) {
    weights.push_back(std::pow(rank + 1.0, -skew));
  }
  std::discrete_distribution<std::uint32_t> ranks(weights.begin(), weights.end());
  Trace trace;
  for (int token = 0; token < kTraceTokens; ++token) {
    std::set<std::uint32_t> keys;
    for (std::uint32_t layer = 0; layer < kTraceLayers; ++layer) {
      const std::size_t before = keys.size();
      while (keys.size() < before + 6) {
        keys.insert(layer * kTraceExperts + expert_of(token, layer, ranks(random)) % kTraceExperts);
      }
    }
    trace.emplace_back(keys.begin(), keys.end());
  }
  return trace;
}

double ShareOfPool(const Trace& trace) {
  SlotDirectory directory(kTraceKeys, kTraceSlots);
  std::int64_t n_hits = 0, n_uses = 0;
  for (const std::vector<std::uint32_t>& keys : trace) {
    for (const std::uint32_t key : keys) {
      directory.Use(key, 1, false);
      ++n_uses;
      const bool hits = directory.FindSlot(key) != SlotDirectory::kNone;
      n_hits += hits ? 1 : 0;
      if (!hits) directory.MarkReady(directory.Assign(key));
      directory.Lease(directory.FindSlot(key));
      directory.Release(directory.FindSlot(key));
    }
    directory.EndStep(1);
  }
  return static_cast<double>(n_hits) / static_cast<double>(n_uses);
}

// The share of hits if the key with the smallest score goes; score_of(use, key) of each use.
double HitShare(const Trace& trace,
                const std::function<double(std::int64_t use, std::uint32_t key)>& score_of) {
  std::map<std::uint32_t, double> scores;  // of the keys in memory
  std::set<std::pair<double, std::uint32_t>> order;
  std::int64_t n_hits = 0, n_uses = 0;
  for (const std::vector<std::uint32_t>& keys : trace) {
    for (const std::uint32_t key : keys) {
      const auto found = scores.find(key);
      if (found != scores.end()) {
        ++n_hits;
        order.erase({found->second, key});
      } else if (scores.size() == kTraceSlots) {
        scores.erase(order.begin()->second);
        order.erase(order.begin());
      }
      scores[key] = score_of(n_uses++, key);
      order.insert({scores[key], key});
    }
  }
  return static_cast<double>(n_hits) / static_cast<double>(n_uses);
}

double ShareOfOptimum(const Trace& trace) {
  std::vector<std::uint32_t> uses;
  for (const auto& keys : trace) uses.insert(uses.end(), keys.begin(), keys.end());
  std::vector<double> next(uses.size());
  std::vector<double> seen(kTraceKeys, 1e18);
  for (std::size_t i = uses.size(); i-- > 0;) {
    next[i] = std::exchange(seen[uses[i]], static_cast<double>(i));
  }
  return HitShare(
      trace, [&](std::int64_t use, std::uint32_t) { return -next[static_cast<std::size_t>(use)]; });
}

TEST(PolicyReplay, ThePoolIsCloseToTheBetterPolicy) {
  const auto token_of = [](int token) { return static_cast<std::uint32_t>(token); };
  const std::pair<std::string, Trace> traces[] = {
      {"steady", MakeTrace(1.2, [](int, std::uint32_t, std::uint32_t rank) { return rank; })},
      {"drifting", MakeTrace(1.2, [&](int token, std::uint32_t,
                                      std::uint32_t rank) { return rank + token_of(token) / 40; })},
      {"phases", MakeTrace(1.5,
                           [&](int token, std::uint32_t layer, std::uint32_t rank) {
                             return rank + token_of(token) / 1500 * 17 + layer;
                           })},
      // The popular experts keep their place, and all others come one after the other.
      {"scanning", MakeTrace(1.2,
                             [&](int token, std::uint32_t, std::uint32_t rank) {
                               return rank < 4 ? rank : 4 + (rank + 6 * token_of(token)) % 60;
                             })},
  };
  for (const auto& [name, trace] : traces) {
    const double pool = ShareOfPool(trace);
    const double recent =
        HitShare(trace, [](std::int64_t use, std::uint32_t) { return static_cast<double>(use); });
    std::vector<double> counts(kTraceKeys);
    const double frequent = HitShare(trace, [&](std::int64_t use, std::uint32_t key) {
      if (use % (36 * PolicyRace::kHalvingTokens) == 0) {
        for (double& count : counts) count = std::floor(count / 2);
      }
      return ++counts[key];
    });
    const double optimum = ShareOfOptimum(trace);
    fmt::print("{}: pool {:.3f}, LRU {:.3f}, LFU {:.3f}, optimum {:.3f}: {:.3f} away\n", name, pool,
               recent, frequent, optimum, optimum - pool);
    EXPECT_GE(pool, std::max(recent, frequent) - 0.05) << name;
    EXPECT_LE(pool, optimum + 1e-9) << name;
  }
}

}  // namespace
}  // namespace fathom::experts
