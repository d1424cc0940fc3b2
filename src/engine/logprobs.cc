#include "engine/logprobs.h"

#include <algorithm>
#include <cstdint>

#include "sampling/portable_math.h"
#include "sampling/probability_weight.h"

namespace fathom::engine {
namespace {

// Collects the `count` largest logits, ties lowest id first, in a sorted list that a row rarely
// changes.
void CollectTop(std::span<const float> logits, std::size_t count, std::vector<TokenLogprob>& top) {
  top.clear();
  if (count == 0) return;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (top.size() == count && logits[i] <= top.back().logprob) continue;
    if (top.size() == count) top.pop_back();
    const auto place = std::upper_bound(
        top.begin(), top.end(), logits[i],
        [](float logit, const TokenLogprob& entry) { return logit > entry.logprob; });
    top.insert(place, {.token = static_cast<Token>(i), .logprob = logits[i]});
  }
}

}  // namespace

void ComputeLogprobs(std::span<const float> logits, Token chosen, int count, TokenLogprobs& out) {
  const double largest_weight = LargestWeight(logits.size());
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::uint64_t sum = 0;
  for (const float logit : logits) {
    sum += ProbabilityWeight(static_cast<double>(logit) - largest, largest_weight);
  }
  const double log_sum = PortableLog(static_cast<double>(sum) / largest_weight);
  const auto logprob = [&](float logit) {
    return static_cast<float>((static_cast<double>(logit) - largest) - log_sum);
  };
  CollectTop(logits, static_cast<std::size_t>(count), out.top);
  for (TokenLogprob& entry : out.top) {
    entry.logprob = logprob(entry.logprob);
  }
  const float chosen_logit = logits[static_cast<std::size_t>(chosen)];
  out.chosen = {.token = chosen, .logprob = logprob(chosen_logit)};
  out.rank = std::ranges::count_if(logits, [=](float logit) { return logit >= chosen_logit; });
}

}  // namespace fathom::engine
