// What the machine can do at best: how fast its threads together read memory, and how fast they
// multiply. The measure of every speed that Fathom reports, taken in the same run.
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
  // Read in one go; far more than the caches hold, or it is their speed that is measured.
  std::int64_t buffer_bytes = std::int64_t{1} << 30;
  bool huge_pages = false;  // ask for pages of 2 MiB, where copied weights lie; else of 4 KiB
  // Of the threads (ThreadTeam), the first one that of the calling thread; empty: not bound.
  std::vector<int> processors;
};

// Owns the memory that is read and the threads that read it, each a contiguous part. Measures
// whenever it is asked, so that a run can do so before, between and after what it is about: the
// frequency of a processor and what else runs on it change. One thread at a time.
class RooflineProbe {
 public:
  // Errors: no memory of that size; an instruction set this machine does not have.
  static Result<std::unique_ptr<RooflineProbe>> Create(const RooflineOptions& options);

  // One measurement: all ways of reading, and a few rounds of multiply-adds; takes what reading
  // the buffer a dozen times takes. Returns the best of each.
  Roofline Measure();

  // Over all measurements so far; at least one. The median is what percentages refer to: the way of
  // reading whose median is highest. The bandwidth of a shared machine drifts within minutes and
  // comes in bursts; a moment's best says little about what lasts.
  Roofline Best() const;
  Roofline Median() const;
  int n_measurements() const { return static_cast<int>(measured_.size()); }

  const RooflineOptions& options() const { return options_; }
  // Of the memory that is read: what the kernel gave, huge_pages or not.
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
