#include "tests/kv_cache/stored_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kv_cache/layout.h"

namespace fathom::testing {

DiskTierIdentity SmallIdentity() {
  return {.fingerprint = HashBytes({}), .history_bytes = 3001, .window_bytes = 517};
}

StoredBlock BlockOfNumber(const DiskTierIdentity& identity, std::uint32_t number) {
  std::mt19937 random(number);
  StoredBlock block;
  block.kind = number % 2 == 0 ? BlockKind::kHistory : BlockKind::kWindow;
  for (std::uint8_t& byte : block.parent.bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  for (std::int64_t i = 0; i < kBlockTokens; ++i) {
    block.tokens.push_back(static_cast<Token>(random() % 129'280));
  }
  block.key = NextBlockKey(block.parent, block.tokens);
  const std::int64_t bytes =
      block.kind == BlockKind::kHistory ? identity.history_bytes : identity.window_bytes;
  block.payload.resize(static_cast<std::size_t>(bytes));
  std::generate(block.payload.begin(), block.payload.end(),
                [&] { return static_cast<std::byte>(random()); });
  return block;
}

std::filesystem::path FilePath(const std::filesystem::path& directory,
                               const DiskTierIdentity& identity, const StoredBlock& block) {
  const Result<BlockDirectory> blocks = BlockDirectory::Make(directory, identity.fingerprint);
  EXPECT_TRUE(blocks);
  return blocks->FilePath(
      {.fingerprint = identity.fingerprint, .key = block.key, .kind = block.kind});
}

std::function<void(const std::string&)> Warnings::Sink() {
  return [this](const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
  };
}

std::vector<std::string> Warnings::texts() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

void Store(DiskTier& tier, const StoredBlock& block) { tier.Store(block, block.payload); }

Loaded Load(DiskTier& tier, const StoredBlock& block) {
  constexpr std::uint64_t kId = 77;
  std::vector<std::byte> payload(block.payload.size());
  tier.StartLoad(kId, block, payload);
  std::vector<DiskTier::FinishedLoad> finished;
  while (finished.empty()) {
    tier.WaitForFinished(std::chrono::seconds(10));
    tier.TakeFinished(finished);
  }
  EXPECT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished.front().id, kId);
  if (!finished.front().ok) {
    return Loaded::kMiss;
  }
  return payload == block.payload ? Loaded::kRight : Loaded::kWrong;
}

std::vector<std::filesystem::path> FilesBelow(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_directory()) {
      files.push_back(entry.path());
    }
  }
  return files;
}

}  // namespace fathom::testing
