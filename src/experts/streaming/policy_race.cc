#include "experts/streaming/policy_race.h"

namespace fathom::experts {

void PolicyRace::Hits::Add(const Hits& other, std::int64_t factor) {
  tokens += factor * other.tokens;
  uses += factor * other.uses;
  recent += factor * other.recent;
  frequent += factor * other.frequent;
}

PolicyRace::PolicyRace(std::size_t n_keys, std::size_t n_slots)
    : n_slots_(n_slots),
      counts_(n_keys),
      recent_(n_keys),
      frequent_(n_keys),
      in_recent_(n_keys),
      in_frequent_(n_keys),
      window_(static_cast<std::size_t>(kWindowTokens)) {}

void PolicyRace::Use(std::uint32_t key, std::int64_t uses, bool is_scan) {
  if (in_frequent_[key] != 0) frequent_.Remove(key);
  counts_.Add(key, uses);
  if (is_scan) {
    if (in_frequent_[key] != 0) frequent_.Insert(key, counts_[key]);
    return;
  }
  ++step_.uses;
  step_.recent += in_recent_[key];
  step_.frequent += in_frequent_[key];
  const auto admit = [&](std::vector<std::uint8_t>& has, std::size_t& n, auto& order) {
    if (has[key] != 0) return;
    if (n == n_slots_) {
      const std::uint32_t victim = order.First();
      order.Remove(victim);
      has[victim] = 0;
    } else {
      ++n;
    }
    has[key] = 1;
  };
  if (in_recent_[key] != 0) recent_.Remove(key);
  admit(in_recent_, n_recent_, recent_);
  recent_.Insert(key);
  admit(in_frequent_, n_frequent_, frequent_);
  frequent_.Insert(key, counts_[key]);
}

bool PolicyRace::EndStep(std::int64_t n_tokens) {
  step_.tokens = n_tokens;
  if (step_.uses > 0 && n_tokens <= kWindowTokens) {
    while (n_steps_ > 0 && sum_.tokens + n_tokens > kWindowTokens) {
      sum_.Add(window_[first_], -1);
      first_ = (first_ + 1) % window_.size();
      --n_steps_;
    }
    window_[(first_ + n_steps_++) % window_.size()] = step_;
    sum_.Add(step_, 1);
    const bool is_recent = best_ == EvictionPolicy::kLeastRecent;
    const double lead = (frequent_share() - recent_share()) * (is_recent ? 1 : -1);
    if (lead > kLead) {
      best_ = is_recent ? EvictionPolicy::kLeastFrequent : EvictionPolicy::kLeastRecent;
      ++n_switches_;
    }
  }
  step_ = {};
  tokens_since_halving_ += n_tokens;
  if (tokens_since_halving_ < kHalvingTokens) return false;
  tokens_since_halving_ = 0;
  counts_.Halve();
  frequent_.Halve();
  return true;
}

}  // namespace fathom::experts
