// PacedProducts: the products of experts at the speed of a given processor: waits as long as that
// processor would need, so that ranks on one machine do not slow each other down.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/tensor.h"
#include "kernels/backend.h"

namespace fathom::benchmarks {

struct ProcessorSpeed {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};

// For one rank; one thread.
class PacedProducts {
 public:
  // n_multiply_adds: per token and expert; n_bytes: per expert's weights.
  PacedProducts(const ProcessorSpeed& speed, std::int64_t n_experts, double n_multiply_adds,
                double n_bytes)
      : speed_(speed),
        used_(static_cast<std::size_t>(n_experts)),
        n_multiply_adds_(n_multiply_adds),
        n_bytes_(n_bytes) {}

  // Takes as long as the slower of reading the weights of these experts and multiplying. If a busy
  // machine wakes a rank too late, the next call is shorter.
  void Run(Matrix<const std::int32_t> ids) {
    const auto start = Clock::now();
    std::ranges::fill(used_, 0);
    double n_pairs = 0;
    for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
      if (ids.data[i] != kRemoteExpert) {
        used_[static_cast<std::size_t>(ids.data[i])] = 1;
        ++n_pairs;
      }
    }
    const auto n_used = static_cast<double>(std::ranges::count(used_, 1));
    Wait(start, n_used * n_bytes_, n_pairs * n_multiply_adds_);
  }
  // Run for other weights.
  void Run(double n_bytes, double n_multiply_adds) { Wait(Clock::now(), n_bytes, n_multiply_adds); }
  // Call before a new measurement.
  void Forget() { overslept_ = 0; }

 private:
  using Clock = std::chrono::steady_clock;

  void Wait(Clock::time_point start, double n_bytes, double n_multiply_adds) {
    const double seconds =
        std::max(n_bytes / speed_.bytes_per_second, 2 * n_multiply_adds / speed_.flops_per_second);
    const double wanted = std::max(seconds - overslept_, 0.0);
    std::this_thread::sleep_until(start + std::chrono::duration<double>(wanted));
    overslept_ += std::chrono::duration<double>(Clock::now() - start).count() - seconds;
  }

  ProcessorSpeed speed_;
  std::vector<char> used_;  // by the call
  double n_multiply_adds_;
  double n_bytes_;
  double overslept_ = 0;  // seconds
};

}  // namespace fathom::benchmarks
