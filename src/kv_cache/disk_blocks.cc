#include "kv_cache/disk_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace fathom::kv_cache {

BlockKey FingerprintOfLayers(const BlockKey& root, const CacheShape& shape) {
  const std::int64_t n_layers = std::ssize(shape.ratios);
  const std::int64_t end = std::min(shape.end_layer, n_layers);
  const CacheShard& rows = shape.rows_of_ratio_4;
  if (shape.first_layer == 0 && end == n_layers && rows.n == 1) return root;
  std::string share = fmt::format("layers {} to {} of {}", shape.first_layer, end, n_layers);
  if (rows.n > 1) {
    share += fmt::format(", rows {} of {}", rows.rank, rows.n);
  }
  const BlockKey part = HashBytes(std::as_bytes(std::span(share)));
  std::array<std::uint8_t, 2 * sizeof(root.bytes)> both = {};
  std::ranges::copy(part.bytes, std::ranges::copy(root.bytes, both.begin()).out);
  return HashBytes(std::as_bytes(std::span(both)));
}

Result<std::unique_ptr<DiskBlocks>> DiskBlocks::Open(SequenceCache& cache,
                                                     const DiskTierOptions& options,
                                                     const BlockKey& root,
                                                     std::function<void(const std::string&)> warn) {
  Result<std::unique_ptr<DiskTier>> disk =
      DiskTier::Open(options,
                     {.fingerprint = FingerprintOfLayers(root, cache.shape()),
                      .history_bytes = cache.BlockBytes(BlockKind::kHistory),
                      .window_bytes = cache.BlockBytes(BlockKind::kWindow)},
                     std::move(warn));
  if (!disk) return Unexpected(disk.error());
  return std::unique_ptr<DiskBlocks>(new DiskBlocks(cache, *std::move(disk)));
}

void DiskBlocks::Store(const KeptBlock& stored) {
  if (stored.data_rank != own_rank()) return;
  std::span<const std::byte> payload = cache_.HostBlock(stored.kind, stored.block);
  if (payload.empty()) {
    Backend& backend = cache_.backend();
    staged_store_.resize(static_cast<std::size_t>(cache_.BlockBytes(stored.kind)));
    backend.Download(staged_store_, cache_.BlockAddress(stored.kind, stored.block));
    if (!backend.Wait(backend.Mark())) {
      return;  // the result of the step is discarded
    }
    payload = staged_store_;
  }
  disk_->Store(stored, payload);
}

void DiskBlocks::StartLoad(std::uint64_t id, const KeptBlock& stored) {
  Check(stored.data_rank == own_rank(), "a block on disk of another data rank");
  std::span<std::byte> payload = cache_.HostBlock(stored.kind, stored.block);
  if (payload.empty()) {
    StagedLoad& staged = staged_loads_[id];
    staged = {stored.kind, stored.block, {}};
    staged.payload.resize(static_cast<std::size_t>(cache_.BlockBytes(stored.kind)));
    payload = staged.payload;
  }
  disk_->StartLoad(id, stored, payload);
}

void DiskBlocks::TakeFinished(std::vector<DiskTier::FinishedLoad>& finished) {
  const std::size_t n_before = finished.size();
  disk_->TakeFinished(finished);
  for (const DiskTier::FinishedLoad& load : std::span(finished).subspan(n_before)) {
    const auto staged = staged_loads_.find(load.id);
    if (staged == staged_loads_.end()) continue;
    const auto& [kind, block, payload] = staged->second;
    if (load.ok) {
      cache_.backend().Upload(cache_.BlockAddress(kind, block), payload);
    }
    staged_loads_.erase(staged);
  }
}

}  // namespace fathom::kv_cache
