#include "sampling/truncation.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "sampling/probability_weight.h"

namespace fathom::sampling {
namespace {

bool Better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

void KeepMinP(double lowest, std::vector<Candidate>& candidates) {
  std::erase_if(candidates,
                [lowest](const Candidate& c) { return static_cast<double>(c.logit) < lowest; });
}

void KeepTopK(std::int64_t top_k, std::vector<Candidate>& candidates) {
  const auto k = static_cast<std::size_t>(top_k);
  if (k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + top_k, candidates.end(), Better);
  candidates.resize(k);
}

// Bins of logits, the best first. The number of bins changes the time, not the result.
constexpr std::size_t kBins = 1024;
std::size_t FindBin(const Candidate& candidate) {
  constexpr float kBinsPerUnit = 32;  // weights in the last bin are 0: below 2^-46 of the largest
  return static_cast<std::size_t>(std::min(-candidate.logit * kBinsPerUnit, float{kBins - 1}));
}

// Sums the weights of each bin to find the bin in which top_p is reached: better bins are kept,
// worse bins dropped, and only this bin is sorted.
void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  const double largest = LargestWeight(candidates.size());
  const auto weight_of = [largest](const Candidate& candidate) {
    return ProbabilityWeight(static_cast<double>(candidate.logit), largest);
  };
  std::array<std::uint64_t, kBins> bin_weights = {};
  std::uint64_t total = 0;
  for (const Candidate& candidate : candidates) {
    const std::uint64_t weight = weight_of(candidate);
    bin_weights[FindBin(candidate)] += weight;
    total += weight;
  }
  const std::uint64_t wanted = WeightOfTopP(top_p, total);
  std::uint64_t sum = 0;
  std::size_t crossing = 0;
  while (crossing + 1 < kBins && sum + bin_weights[crossing] < wanted) {
    sum += bin_weights[crossing++];
  }
  std::erase_if(candidates, [crossing](const Candidate& c) { return FindBin(c) > crossing; });
  const auto first =
      std::partition(candidates.begin(), candidates.end(),
                     [crossing](const Candidate& c) { return FindBin(c) < crossing; });
  std::sort(first, candidates.end(), Better);
  auto end = first;
  while (end != candidates.end() && sum < wanted) {
    sum += weight_of(*end++);
  }
  candidates.erase(end, candidates.end());
}

}  // namespace

void Truncate(const SamplingRule& rule, std::vector<Candidate>& candidates) {
  Check(!candidates.empty(), "a candidate");
  if (rule.lowest > kNoMinP) KeepMinP(rule.lowest, candidates);
  if (rule.top_k > 0) KeepTopK(rule.top_k, candidates);
  if (rule.top_p < 1) KeepTopP(rule.top_p, candidates);
}

}  // namespace fathom::sampling
