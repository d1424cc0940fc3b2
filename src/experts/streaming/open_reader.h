// Opens the files that experts are read from: the files of the checkpoint, or two copies of them.
#pragma once

#include <memory>

#include "base/result.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/safetensors.h"
#include "experts/streaming/calibration.h"
#include "experts/streaming/expert_files.h"
#include "experts/streaming/streaming_options.h"

namespace fathom {

struct OpenedReader {
  std::unique_ptr<BlockReader> reader;
  Calibration found;  // for all drives together
};

// Opens the reader that options.open makes, else the files of the checkpoint and of options.mirror,
// whose speeds are measured. Errors: a file cannot be opened, or the mirror has other bytes
// (CheckMirror); the system starts no threads.
Result<OpenedReader> OpenReader(const Checkpoint& checkpoint, const ExpertFiles& files,
                                const StreamingOptions& options);

}  // namespace fathom
