// RooflineProbe: measures the limits of the machine: how fast its threads together read memory and
// multiply. Every speed that Fathom reports is compared with limits measured in the same run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/pages.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace fathom {

struct Roofline {
  double read_gb_s = 0;    // 1e9 bytes per second
  double fma_gflop_s = 0;  // 1e9 fp32 operations per second, two per multiply-add
};

struct RooflineOptions {
  Isa isa = Isa::kScalar;  // kScalar: plain loops, on one thread as the reference backend
  int n_threads = 1;
  // Bytes read in one pass; far more than the caches hold, else the speed of the caches is
  // measured.
  std::int64_t buffer_bytes = std::int64_t{1} << 30;
  bool huge_pages = false;  // ask for pages of 2 MiB, as for copied weights; else 4 KiB
  // The processors of the threads (ThreadTeam), the calling thread's first; empty: not bound.
  std::vector<int> processors;
};

// Owns the memory that is read and the threads that read it, each a contiguous part. Measures on
// each call, so that a run can measure before, between and after its own work: the frequency of a
// processor and the load of the machine change. One thread at a time.
class RooflineProbe {
 public:
  // Errors: no memory of that size; an instruction set this machine does not have.
  static Result<std::unique_ptr<RooflineProbe>> Create(const RooflineOptions& options);

  // Measures once: all read patterns, and a few rounds of multiply-adds; takes as long as reading
  // the buffer a dozen times. Returns the best of each.
  Roofline Measure();

  // Best and median over all measurements so far; at least one. Percentages refer to the median of
  // the read pattern whose median is highest. The bandwidth of a shared machine drifts within
  // minutes and comes in bursts; the best moment says little about what lasts.
  Roofline Best() const;
  Roofline Median() const;
  int n_measurements() const { return static_cast<int>(measured_.size()); }

  const RooflineOptions& options() const { return options_; }
  // The size of the pages that the kernel gave, whether huge_pages was set or not.
  std::int64_t page_bytes() const;

 private:
  RooflineProbe(const RooflineOptions& options, PageMemory memory);
  void Fill();
  double MeasureRead();
  double MeasureMultiplyAdds();

  const RooflineOptions options_;
  PageMemory memory_;
  ThreadTeam team_;
  std::vector<Roofline> measured_;
  std::vector<std::vector<double>> reads_;  // GB/s of every way of reading
  std::vector<std::int64_t> sink_;          // per thread: keeps the results alive
};

}  // namespace fathom
