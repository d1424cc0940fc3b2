#include "distributed/rank_workspace.h"

#include <algorithm>

#include "distributed/index_partition.h"
#include "distributed/logit_gather.h"
#include "distributed/row_gather.h"

namespace fathom::distributed {
namespace {

RankBuffers LayOut(BufferLayout& memory, const ModelConfig& config, const ModelShard& shard,
                   const RankWorkspaceShape& shape, bool on_host) {
  const std::int64_t t = shard.n_tensor > 1 ? shape.max_tokens : 0;
  const std::int64_t d = config.hidden_size;
  const std::int64_t latent = config.o_groups * config.o_lora_rank;
  const std::int64_t width = config.moe_intermediate_size;
  const int n_parts = std::max(RowParallelParts(latent), RowParallelParts(width));
  const std::int64_t gathered = GatheredRows(config, shard, shape.max_tokens);
  RankBuffers buffers;
  buffers.part_input = memory.Add<Bf16>(
      t, std::max(latent / RowParallelParts(latent), width / RowParallelParts(width)));
  buffers.parts = memory.Add<float>(t * std::max(n_parts / shard.n_tensor, 1), d);
  buffers.sum = memory.Add<float>(t, d);
  buffers.packed_rows = memory.Add<Bf16>(
      shard.n_stage_ranks() > 1 ? std::max(shape.max_tokens, shape.max_logit_rows) : 0, d);
  buffers.index_lists = memory.Add<ScoredRow>(
      MostIndexLists(shape.max_tokens, shard.n_tensor, gathered > 0), config.index_topk);
  buffers.gathered =
      memory.Add<std::uint8_t>(gathered, KeyBytes({config.head_dim, config.qk_rope_head_dim}));
  buffers.logit_shards = memory.Add<float>(
      shard.n_stage_ranks() * shard.n_stages > 1 ? LogitSlots(shard) * shape.max_logit_rows : 0,
      config.vocab_size);
  if (!on_host) {
    buffers.staged_streams = memory.Add<Bf16>(shape.max_tokens, 4 * d);
    buffers.staged_rows = memory.Add<Bf16>(t, d);
    buffers.staged_selected = memory.Add<std::int32_t>(t, config.index_topk);
  }
  return buffers;
}

}  // namespace

Result<LaidOutBuffer<RankBuffers>> AllocateRankBuffers(Backend& backend, const ModelConfig& config,
                                                       const ModelShard& shard,
                                                       const RankWorkspaceShape& shape) {
  return AllocateLayout(
      backend,
      [&](BufferLayout& buffer) { return LayOut(buffer, config, shard, shape, backend.OnHost()); },
      MemoryKind::kShared);
}

std::int64_t RankWorkspaceBytes(const ModelConfig& config, const ModelShard& shard,
                                const RankWorkspaceShape& shape) {
  return LayoutBytes(
      [&](BufferLayout& buffer) { return LayOut(buffer, config, shard, shape, /*on_host=*/true); });
}

}  // namespace fathom::distributed
