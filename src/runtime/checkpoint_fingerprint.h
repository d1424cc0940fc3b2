// Computes fingerprints of checkpoints without reading all their weights.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace fathom::runtime {

// Returns the fingerprint of a checkpoint opened from its directory: 32 digits, a hash of
//
//   config.json                          the whole file
//   every tensor                         name, dtype, shape
//   every file of tensors                name, size, time of modification, 8 pieces of 4 KiB
//
// Weights that are rewritten change the time. The pieces are for places where all files have one
// time (reproducible archives). A copy that does not keep the times counts as another checkpoint.
// Errors: config.json or the system's data about a file cannot be read.
Result<std::string> ComputeFingerprint(const Checkpoint& checkpoint);
// Returns a fingerprint without names and times of files, equal for copies on several machines.
Result<std::string> ComputeContentFingerprint(const Checkpoint& checkpoint);

}  // namespace fathom::runtime
