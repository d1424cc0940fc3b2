// RooflineProbe: measures the limits of the hardware under a backend: how fast all of it together
// reads memory and multiplies. Every speed that Fathom reports is compared with limits measured in
// the same run. Backend::MakeRooflineProbe makes the probe of a backend.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace fathom::kernels {

struct Roofline {
  double read_gb_s = 0;    // 1e9 bytes per second
  double fma_gflop_s = 0;  // 1e9 fp32 operations per second, two per multiply-add
  // GPUs only, else 0:
  double copy_gb_s = 0;  // for a copy inside the device, bytes read and written together
  // The time of one empty kernel, among many that run one after the other: enqueued one by one, and
  // as a graph of the driver (0: the driver makes no graphs).
  double launch_us = 0;
  double graph_launch_us = 0;
};

struct RooflineOptions {
  // Bytes read in one pass; far more than the caches hold, else the speed of the caches is
  // measured.
  std::int64_t buffer_bytes = std::int64_t{1} << 30;
  bool huge_pages = false;  // ask for pages of 2 MiB, as for copied weights; else 4 KiB
};

// Owns the memory that is read. Measures on each call, so that a run can measure before, between
// and after its own work: the frequency of a processor and the load of the machine change. One
// thread at a time.
class RooflineProbe {
 public:
  virtual ~RooflineProbe() = default;

  // Measures once: all read patterns, and a few rounds of multiply-adds; takes as long as reading
  // the buffer a dozen times. Returns the best of each. Error: kUnavailable: the device fails;
  // never on the processors of the host.
  Result<Roofline> Measure();

  // Return the best and the median of all measurements so far; at least one. Percentages refer to
  // the median of the read pattern whose median is highest. The bandwidth of a shared machine
  // drifts within minutes and comes in bursts; the best moment says little about lasting speed.
  Roofline Best() const;
  Roofline Median() const;
  int n_measurements() const { return static_cast<int>(measured_.size()); }

  // Returns the number of host threads that measure.
  virtual int n_threads() const = 0;
  // Returns the size of the pages that the system provided, whether huge_pages was set or not; 0:
  // memory of a GPU.
  virtual std::int64_t page_bytes() const = 0;

 private:
  // Returns the best of each. Appends GB/s to reads[i] for each read in pattern i; the number of
  // patterns is constant.
  virtual Result<Roofline> MeasureOnce(std::vector<std::vector<double>>& reads) = 0;

  std::vector<Roofline> measured_;
  std::vector<std::vector<double>> reads_;  // GB/s of every read pattern
};

}  // namespace fathom::kernels
