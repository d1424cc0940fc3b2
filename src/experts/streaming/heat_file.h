// Heat: the number of uses of each expert of a checkpoint. A later run begins with the most used
// experts.
//
//   8 bytes   "FATHHEAT"
//   32 bytes  fingerprint of the checkpoint
//   u32       version, blocks, experts of a block
//   u32       uses of each expert: [blocks, experts]
//   16 bytes  XXH3-128 of all bytes before
//
// Numbers are little-endian. The file has 44 kB for Flash, 94 kB for Pro.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::experts {

// Replaces the file, atomically. `fingerprint` has 32 characters; the size of `uses` is a multiple
// of n_experts. Errors: as WriteFile.
Status WriteHeat(const std::filesystem::path& path, std::string_view fingerprint,
                 std::int64_t n_experts, std::span<const std::uint32_t> uses);

// Returns the uses of each expert; none if there is no file. Errors: kInvalidData: the file is
// damaged, or belongs to another checkpoint; kIo.
Result<std::vector<std::uint32_t>> ReadHeat(const std::filesystem::path& path,
                                            std::string_view fingerprint, std::int64_t n_experts);

}  // namespace fathom::experts
