// Heat: how often each expert of a checkpoint was used. A later run begins with the experts that
// were used most.
//
//   8 bytes   "FATHHEAT"
//   32 bytes  fingerprint of the checkpoint
//   u32       version, blocks, experts of a block
//   u32       uses of each expert: [blocks, experts]
//   16 bytes  XXH3-128 of all before
//
// Numbers are little-endian. Flash has 44 kB, Pro 94 kB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

// Replaces the file, all of it or nothing. `fingerprint` has 32 characters; uses: a multiple of
// n_experts. Errors: those of WriteFile.
Status WriteHeat(const std::filesystem::path& path, std::string_view fingerprint,
                 std::int64_t n_experts, std::span<const std::uint32_t> uses);

// Returns the uses of each expert; none if there is no file. Errors: kInvalidData: the file is
// damaged, or that of another checkpoint; kIo.
Result<std::vector<std::uint32_t>> ReadHeat(const std::filesystem::path& path,
                                            std::string_view fingerprint, std::int64_t n_experts);

}  // namespace fathom
