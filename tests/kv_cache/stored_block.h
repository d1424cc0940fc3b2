// Blocks for the tests of what is kept on disk: any number of them, each made from its number.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "kv_cache/block_directory.h"
#include "kv_cache/block_file.h"
#include "kv_cache/disk_tier.h"

namespace fathom::testing {

struct StoredBlock : KeptBlock {
  std::vector<std::byte> payload;
};

// The identity of a model with small payloads of odd length.
DiskTierIdentity SmallIdentity();
// Numbers of even parity are history blocks, the others window blocks.
StoredBlock BlockOfNumber(const DiskTierIdentity& identity, std::uint32_t number);
std::filesystem::path FilePath(const std::filesystem::path& directory,
                               const DiskTierIdentity& identity, const StoredBlock& block);

// Collects the warnings of a tier, from any thread.
class Warnings {
 public:
  std::function<void(const std::string&)> Sink();
  std::vector<std::string> texts() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

void Store(DiskTier& tier, const StoredBlock& block);
// The result of a load of the block: kRight only if its payload is right.
enum class Loaded { kRight, kWrong, kMiss };
Loaded Load(DiskTier& tier, const StoredBlock& block);

// Files anywhere below `directory`.
std::vector<std::filesystem::path> FilesBelow(const std::filesystem::path& directory);

}  // namespace fathom::testing
