// Blocks of a cache on disk and back, whether or not the host reaches the memory of the cache.
#include "kv_cache/disk_blocks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/kv_cache/stored_block.h"
#include "tests/testing/remote_backend.h"
#include "tests/testing/shared_data.h"

namespace fathom::kv_cache {
namespace {

class DiskBlocksTest : public ::testing::TestWithParam<testing::TestMemory> {};
INSTANTIATE_TEST_SUITE_P(Memory, DiskBlocksTest, ::testing::ValuesIn(testing::kTestMemories),
                         [](const auto& memory) { return testing::Name(memory.param); });

TEST_P(DiskBlocksTest, ABlockComesBackAsItWas) {
  const std::unique_ptr<Backend> backend = testing::MakeReference(GetParam());
  Result<SequenceCache> cache = SequenceCache::Create(
      *backend,
      {.keys = {64, 64}, .sliding_window = 128, .ratios = {0, 4, 128}, .max_context = 1'000});
  ASSERT_TRUE(cache) << cache.error().message;
  const testing::TemporaryDirectory directory;
  testing::Warnings warnings;
  Result<std::unique_ptr<DiskBlocks>> disk =
      DiskBlocks::Open(*cache, {.directory = directory.path()}, HashBytes({}), warnings.Sink());
  ASSERT_TRUE(disk) << disk.error().message;
  const std::vector<Token> tokens(static_cast<std::size_t>(kBlockTokens), 7);
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    const std::int32_t stored = cache->arena().Allocate(kind).value();
    const std::int32_t loaded = cache->arena().Allocate(kind).value();
    const std::int64_t n_bytes = cache->BlockBytes(kind);
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < n_bytes; ++i) {
      bytes.push_back(static_cast<std::byte>(i * 31 % 251));
    }
    backend->Upload(cache->BlockAddress(kind, stored), bytes);
    KeptBlock block = {.key = NextBlockKey(HashBytes({}), tokens),
                       .kind = kind,
                       .parent = HashBytes({}),
                       .tokens = tokens,
                       .block = stored};
    (*disk)->Store(block);
    (*disk)->Flush();
    block.block = loaded;
    (*disk)->StartLoad(5, block);
    std::vector<DiskTier::FinishedLoad> finished;
    while (finished.empty()) {
      (*disk)->WaitForFinished(std::chrono::seconds(10));
      (*disk)->TakeFinished(finished);
    }
    EXPECT_TRUE(finished.front().ok);
    EXPECT_EQ(testing::ReadBack(*backend, cache->BlockAddress(kind, loaded), n_bytes), bytes);
  }
}

}  // namespace
}  // namespace fathom::kv_cache
