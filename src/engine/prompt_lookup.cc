#include "engine/prompt_lookup.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace fathom::engine {
namespace {

constexpr std::size_t kFewestSlots = 256;

// Returns how many tokens ending at `earlier` equal the tokens ending at `last`.
std::int64_t Matching(std::span<const Token> tokens, std::int64_t earlier, std::int64_t last) {
  const std::int64_t most = std::min(PromptLookup::kLongest, earlier + 1);
  std::int64_t n = 0;
  while (n < most && tokens[static_cast<std::size_t>(earlier - n)] ==
                         tokens[static_cast<std::size_t>(last - n)]) {
    ++n;
  }
  return n;
}

}  // namespace

// Returns the slot of the three tokens that end at `last`.
std::size_t PromptLookup::Slot(std::span<const Token> tokens, std::int64_t last) const {
  std::uint64_t hash = 0;
  for (std::int64_t i = last - kShortest + 1; i <= last; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(i)])) *
           0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash & (latest_.size() - 1);
}

// Adds the positions of new tokens but the last, which is the one that is looked up. The slots grow
// with the text; then all positions are added again.
void PromptLookup::Index(std::span<const Token> tokens) {
  const std::int64_t end = std::ssize(tokens) - 1;
  const std::size_t n_slots = std::max(std::bit_ceil(tokens.size()), kFewestSlots);
  if (latest_.size() < n_slots) {
    latest_.assign(n_slots, kNone);
    previous_.clear();
    previous_.reserve(n_slots);
    found_.reserve(static_cast<std::size_t>(kMostLookups));
  }
  for (std::int64_t last = std::ssize(previous_); last < end; ++last) {
    if (last + 1 < kShortest) {
      previous_.push_back(kNone);
      continue;
    }
    std::int32_t& latest = latest_[Slot(tokens, last)];
    previous_.push_back(latest);
    latest = static_cast<std::int32_t>(last);
  }
}

PromptLookup::Found PromptLookup::Find(std::span<const Token> tokens, std::int64_t most) {
  Check(most <= kMostLookups, "tokens that are looked up");
  const std::int64_t last = std::ssize(tokens) - 1;
  if (last < kShortest || most <= 0) return {};
  Index(tokens);
  std::int64_t longest = kShortest - 1;
  std::int64_t best = kNone;
  std::int64_t earlier = latest_[Slot(tokens, last)];
  for (int n = 0; n < kMostTried && earlier != kNone && longest < kLongest; ++n) {
    const std::int64_t n_matching = Matching(tokens, earlier, last);
    if (n_matching > longest) {
      longest = n_matching;
      best = earlier;
    }
    earlier = previous_[static_cast<std::size_t>(earlier)];
  }
  if (best == kNone) return {};
  found_.clear();
  for (std::int64_t next = best + 1; std::ssize(found_) < most; ++next) {
    found_.push_back(next <= last ? tokens[static_cast<std::size_t>(next)]
                                  : found_[static_cast<std::size_t>(next - last - 1)]);
  }
  return {.n_matching = longest, .tokens = found_};
}

}  // namespace fathom::engine
