// Calibration: the fastest way to read a disk, measured with the experts that it stores; and the
// files that experts are read from: the files of the checkpoint, or two copies of them.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "checkpoint/file_block_reader.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/streaming_options.h"

namespace fathom::experts {

// A way to read, and its speed.
struct Calibration {
  bool direct = true;
  int n_threads = 8;
  double bytes_per_second = 0;  // 0: not measured
};

// Chooses direct reads, unless buffered reads are 10 % faster; then, among the ways that are at
// most 5 % slower than the fastest, the one with the fewest threads. If no way has a speed, prefers
// a direct one, then the number of threads closest to 8. `measured` must not be empty.
Calibration ChooseReads(std::span<const Calibration> measured);

// Reads random experts in each way that the options allow, for at most calibration_seconds in all,
// and leaves `reader` set to the last way. Reads nothing if the options leave no choice. Error: the
// system starts no threads. Experts that cannot be read do not count, nor do reads that the page
// cache would serve instead of the disk.
Result<Calibration> CalibrateReads(FileBlockReader& reader, const ExpertFiles& files,
                                   const StreamingOptions& options);

struct OpenedReader {
  std::unique_ptr<BlockReader> reader;
  Calibration found;  // for all drives together
};

// Opens the reader that options.open makes, else the files of the checkpoint and of options.mirror,
// whose speeds are measured. Errors: a file cannot be opened, or the mirror has other bytes
// (CheckMirror); the system starts no threads.
Result<OpenedReader> OpenReader(const Checkpoint& checkpoint, const ExpertFiles& files,
                                const StreamingOptions& options);

}  // namespace fathom::experts
