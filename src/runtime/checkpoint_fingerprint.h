// Fingerprints of checkpoints, made without reading their weights.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// Returns the fingerprint of a checkpoint opened from its directory: 32 digits, a hash of
//
//   config.json                          all of it
//   every tensor                         name, dtype, shape
//   every file of tensors                name, size, time of modification, 8 pieces of 4 KiB
//
// Weights that are written anew change the time; the pieces are for places where all files have the
// same one (archives that can be repeated bit by bit). A copy that does not keep the times counts
// as another checkpoint. Errors: config.json or what the system says about a file cannot be read.
Result<std::string> ComputeFingerprint(const Checkpoint& checkpoint);
// A fingerprint without names and times of files: copies on several machines have the same.
Result<std::string> ComputeContentFingerprint(const Checkpoint& checkpoint);

}  // namespace fathom
