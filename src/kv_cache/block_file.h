// The file of one block, little endian:
//
//     0  "FATHOMKV"
//     8  u32       version: 1
//    12  u32       kind: 0 history, 1 window
//    16  u64       bytes of the payload
//    24  16 bytes  fingerprint of the model that computed the block (DiskTierIdentity)
//    40  16 bytes  key of the block
//    56  16 bytes  key of the block before it; the fingerprint if there is none
//    72  128 i32   tokens of the block
//   584  16 bytes  XXH3-128 of the payload
//   600  16 bytes  XXH3-128 of bytes 0 to 599
//   616  payload
//
// No byte is unused, so any damage shows; nothing may follow the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "kv_cache/block_key.h"

namespace fathom::kv_cache {

inline constexpr std::int64_t kBlockHeaderBytes = 616;

// Both functions wait for the disk. They ignore KeptBlock::data_rank and KeptBlock::block, which no
// file holds. Further errors: kResourceExhausted: the process has no descriptor or memory left;
// kIo: anything else, with the reason.

// Writes `temporary`, locked and readable by its owner only, and renames it to `path`, replacing an
// existing file; on any error, `temporary` is removed. Does not wait until the disk has the bytes:
// they survive the process, and checksums detect what a power cut leaves.
//
// Among all threads and processes that write a block under the same two names at the same time, one
// writes; the others wait for it, a second at most, and write themselves if it fails or dies.
// False: another writer has written a file of the right size at `path`. Errors: kResourceExhausted,
// also if another writer does not finish; kNotFound: `temporary` was removed again and again.
Result<bool> WriteBlockFile(const std::string& temporary, const std::string& path,
                            const BlockKey& fingerprint, const KeptBlock& block,
                            std::span<const std::byte> payload);

// Reads the payload and marks the file as used now, if the file holds exactly this block. After an
// error the content of `payload` is undefined. Errors: kNotFound, no file; kInvalidData, another
// file or a damaged one.
Status ReadBlockFile(const std::string& path, const BlockKey& fingerprint,
                     const KeptBlock& expected, std::span<std::byte> payload);

// Removes an unfinished file, except one that a living process is writing.
void RemoveIfAbandoned(const std::string& temporary);

}  // namespace fathom::kv_cache
