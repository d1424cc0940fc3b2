#include "engine/truncation.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/portable_math.h"

namespace fathom {
namespace {

constexpr std::size_t kMaxCandidates = std::size_t{1} << 18;
// Weight of the best candidate. 2^18 of them still fit into 64 bits; what is lost is below 2^-45 of
// the best candidate's probability.
constexpr double kWeightOfBest = 0x1p44;

bool Better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

std::uint64_t Weight(const Candidate& candidate) {
  const double probability = PortableExp(static_cast<double>(candidate.logit));
  return static_cast<std::uint64_t>(probability * kWeightOfBest + 0.5);
}

// p >= min_p * p_max is logit >= 0 + ln(min_p).
void KeepMinP(double min_p, std::vector<Candidate>& candidates) {
  // Smaller than every weight that counts; its logarithm need not be defined.
  if (min_p < 0x1p-1000) return;
  const double lowest = PortableLog(min_p);
  std::erase_if(candidates,
                [lowest](const Candidate& c) { return static_cast<double>(c.logit) < lowest; });
}

void KeepTopK(std::int64_t top_k, std::vector<Candidate>& candidates) {
  const auto k = static_cast<std::size_t>(top_k);
  if (k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + top_k, candidates.end(), Better);
  candidates.resize(k);
}

// Sorts the best 32, then the next 256, ... and stops where the sum reaches top_p: usually at once,
// so that the vocabulary is partitioned but never sorted.
void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  std::uint64_t total = 0;
  for (const Candidate& candidate : candidates) {
    total += Weight(candidate);
  }
  const auto wanted = static_cast<std::uint64_t>(std::ceil(top_p * static_cast<double>(total)));
  std::uint64_t sum = 0;
  std::size_t first = 0;
  for (std::size_t count = 32; first < candidates.size(); count *= 8) {
    const std::size_t end = std::min(first + count, candidates.size());
    const auto begin = candidates.begin() + static_cast<std::ptrdiff_t>(first);
    const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(end);
    std::nth_element(begin, middle, candidates.end(), Better);
    std::sort(begin, middle, Better);
    for (; first < end; ++first) {
      sum += Weight(candidates[first]);
      if (sum >= wanted) {
        candidates.resize(first + 1);
        return;
      }
    }
  }
}

}  // namespace

bool Truncates(const SamplingParameters& parameters) {
  return parameters.min_p > 0 || parameters.top_k > 0 || parameters.top_p < 1;
}

void Truncate(const SamplingParameters& parameters, std::vector<Candidate>& candidates) {
  Check(!candidates.empty() && candidates.size() <= kMaxCandidates, "1 to 2^18 candidates");
  if (parameters.min_p > 0) KeepMinP(parameters.min_p, candidates);
  if (parameters.top_k > 0) KeepTopK(parameters.top_k, candidates);
  if (parameters.top_p < 1) KeepTopP(parameters.top_p, candidates);
}

}  // namespace fathom
