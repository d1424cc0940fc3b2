// Calibration: how a disk is read fastest, measured with the experts that it will be read for.
#pragma once

#include <span>

#include "base/result.h"
#include "checkpoint/file_block_reader.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/streaming_options.h"

namespace fathom {

// A way to read, and its speed.
struct Calibration {
  bool direct = true;
  int n_threads = 8;
  double bytes_per_second = 0;  // 0: not measured
};

// Chooses direct reads, unless buffered ones are 10 % faster; of these, the way with the fewest
// threads of those that are at most 5 % slower than the fastest. If no way has a speed, a direct
// one before others, with the number of threads that is next to 8. `measured` is not empty.
Calibration ChooseReads(std::span<const Calibration> measured);

// Reads random experts in each way that the options allow, at most calibration_seconds in all, and
// leaves `reader` reading in the last of them. Reads nothing if the options leave no choice. Error:
// the system starts no threads. Experts that cannot be read do not count, nor does what the page
// cache would answer instead of the disk.
Result<Calibration> CalibrateReads(FileBlockReader& reader, const ExpertFiles& files,
                                   const StreamingOptions& options);

}  // namespace fathom
