// WriteSlice: writes a complete checkpoint of random weights in the native format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/result.h"
#include "base/thread_team.h"
#include "checkpoint/model_config.h"

namespace fathom::measure {

struct SliceOptions {
  ModelConfig config;  // FP4 experts
  std::uint64_t seed = 0;
  std::int64_t max_shard_bytes = 5'000'000'000;  // a larger tensor has a shard of its own
};

struct SliceSummary {
  std::int64_t n_tensors = 0;
  std::int64_t n_shards = 0;
  std::int64_t bytes = 0;  // bytes of all tensors
};

// Called between blocks with the share of bytes written, 0 to 1. Returns false to end the work with
// an error.
using SliceProgress = std::function<bool(double share)>;

// Writes the shards, their index, the tokenizer's files and, last, config.json into `directory`,
// which is created if missing and must be empty otherwise. The bytes depend only on the options,
// not on the team. Memory: a block of some MiB and the list of tensors. Errors: an invalid
// configuration, a vocabulary without room for the tokenizer, a directory that is not empty or
// cannot be written, too little space on the disk. After an error the directory is as it was.
Result<SliceSummary> WriteSlice(const std::filesystem::path& directory, const SliceOptions& options,
                                ThreadTeam& team, const SliceProgress& progress);

}  // namespace fathom::measure
