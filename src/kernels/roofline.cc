#include "kernels/roofline.h"

#include <algorithm>

#include "base/check.h"

namespace fathom {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Roofline RooflineProbe::Measure() {
  measured_.push_back({.read_gb_s = MeasureReads(reads_), .fma_gflop_s = MeasureMultiplyAdds()});
  return measured_.back();
}

Roofline RooflineProbe::Best() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline best;
  for (const Roofline& one : measured_) {
    best.read_gb_s = std::max(best.read_gb_s, one.read_gb_s);
    best.fma_gflop_s = std::max(best.fma_gflop_s, one.fma_gflop_s);
  }
  return best;
}

Roofline RooflineProbe::Median() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline median;
  for (const std::vector<double>& reads : reads_) {
    median.read_gb_s = std::max(median.read_gb_s, fathom::Median(reads));
  }
  std::vector<double> multiplies;
  for (const Roofline& one : measured_) {
    multiplies.push_back(one.fma_gflop_s);
  }
  median.fma_gflop_s = fathom::Median(multiplies);
  return median;
}

}  // namespace fathom
