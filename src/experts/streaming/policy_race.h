// PolicyRace: decides which expert to evict: the least recently used, or the least frequently used.
//
// Published measurements contradict each other: on some texts LRU hits .08 where the optimum is
// .46, on others it beats every policy that counts uses. So both run side by side, as directories
// that hold ids only, and the pool follows the one that has had more hits lately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experts/streaming/use_orders.h"

namespace fathom::experts {

enum class EvictionPolicy : std::uint8_t { kLeastRecent, kLeastFrequent };

// One thread at a time. Allocates in the constructor only.
class PolicyRace {
 public:
  // Tokens after which all use counts are halved, and tokens in the window of the race.
  static constexpr std::int64_t kHalvingTokens = 4096;
  static constexpr std::int64_t kWindowTokens = 2048;
  // The other policy takes over if its share of hits is this much greater.
  static constexpr double kLead = 0.02;

  PolicyRace(std::size_t n_keys, std::size_t n_slots);

  // Counts uses of an expert: is_scan by a step that processes the tokens of a prompt, otherwise by
  // generated tokens. Only the latter change the two directories: a prompt uses nearly every expert
  // once.
  void Use(std::uint32_t key, std::int64_t uses, bool is_scan);
  // Ends a step of n_tokens tokens. True: all use counts were halved.
  bool EndStep(std::int64_t n_tokens);

  EvictionPolicy best() const { return best_; }
  const UseCounts& counts() const { return counts_; }
  std::int64_t n_switches() const { return n_switches_; }
  // Shares of hits in the window.
  double recent_share() const { return Share(sum_.recent); }
  double frequent_share() const { return Share(sum_.frequent); }

 private:
  // Hits of both directories.
  struct Hits {
    std::int64_t tokens = 0, uses = 0, recent = 0, frequent = 0;
    // Adds `other` `factor` times.
    void Add(const Hits& other, std::int64_t factor);
  };
  double Share(std::int64_t hits) const {
    return sum_.uses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(sum_.uses);
  }

  std::size_t n_slots_;
  UseCounts counts_;
  RecencyOrder recent_;
  FrequencyOrder frequent_;
  std::vector<std::uint8_t> in_recent_, in_frequent_;  // by key
  std::size_t n_recent_ = 0, n_frequent_ = 0;
  Hits step_, sum_;
  std::vector<Hits> window_;  // steps, a ring
  std::size_t first_ = 0, n_steps_ = 0;
  std::int64_t tokens_since_halving_ = 0;
  EvictionPolicy best_ = EvictionPolicy::kLeastRecent;
  std::int64_t n_switches_ = 0;
};

}  // namespace fathom::experts
