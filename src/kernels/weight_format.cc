#include "kernels/weight_format.h"

#include <algorithm>

namespace fathom::kernels {

bool AreUniform(std::span<const ExpertWeights> experts) {
  const auto same = [](const Weight& a, const Weight& b) {
    return a.format == b.format && a.scale_format == b.scale_format && a.n == b.n && a.k == b.k &&
           a.k_parts == b.k_parts;
  };
  return std::all_of(experts.begin(), experts.end(), [&](const ExpertWeights& expert) {
    return same(expert.w1, experts[0].w1) && same(expert.w3, experts[0].w1) &&
           same(expert.w2, experts[0].w2);
  });
}

}  // namespace fathom::kernels
