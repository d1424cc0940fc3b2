#include "engine/draft_confidence.h"

#include <algorithm>
#include <cmath>

namespace fathom {
namespace {

constexpr double kObservations = 256;  // the newest has a weight of at least 1 / this
constexpr std::int64_t kPassed = 16;   // one in this many cuts is omitted

}  // namespace

std::size_t DraftConfidence::FindBin(float confidence) {
  constexpr float kHalf = kBins / 2;
  const float bin = std::floor(std::clamp(confidence, -kHalf, kHalf)) + kHalf;  // NaN: the lowest
  return bin >= 0 ? std::min(static_cast<std::size_t>(bin), kBins - 1) : 0;
}

void DraftConfidence::Verified(float confidence, bool right) {
  Bin& bin = bins_[FindBin(confidence)];
  bin.weight = std::min(bin.weight + 1, kObservations);
  bin.right += ((right ? 1.0 : 0.0) - bin.right) / bin.weight;
}

double DraftConfidence::Chance(float confidence) const {
  const Bin& bin = bins_[FindBin(confidence)];
  return std::min(1.0, bin.right + 1 / std::sqrt(bin.weight + 1));
}

bool DraftConfidence::Cuts(double chance, double least) {
  return chance < least && ++n_cut_ % kPassed != 0;
}

}  // namespace fathom
