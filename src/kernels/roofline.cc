#include "kernels/roofline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/median.h"

namespace fathom::kernels {

Result<Roofline> RooflineProbe::Measure() {
  const Result<Roofline> measured = MeasureOnce(reads_);
  if (measured) measured_.push_back(*measured);
  return measured;
}

Roofline RooflineProbe::Best() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline best;
  for (const Roofline& one : measured_) {
    best.read_gb_s = std::max(best.read_gb_s, one.read_gb_s);
    best.fma_gflop_s = std::max(best.fma_gflop_s, one.fma_gflop_s);
    best.copy_gb_s = std::max(best.copy_gb_s, one.copy_gb_s);
    for (double Roofline::*const time : {&Roofline::launch_us, &Roofline::graph_launch_us}) {
      best.*time = best.*time == 0 ? one.*time : std::min(best.*time, one.*time);
    }
  }
  return best;
}

Roofline RooflineProbe::Median() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline median;
  for (const std::vector<double>& reads : reads_) {
    median.read_gb_s = std::max(median.read_gb_s, fathom::Median(reads));
  }
  for (double Roofline::*const limit : {&Roofline::fma_gflop_s, &Roofline::copy_gb_s,
                                        &Roofline::launch_us, &Roofline::graph_launch_us}) {
    std::vector<double> values;
    for (const Roofline& one : measured_) {
      values.push_back(one.*limit);
    }
    median.*limit = fathom::Median(std::move(values));
  }
  return median;
}

}  // namespace fathom::kernels
