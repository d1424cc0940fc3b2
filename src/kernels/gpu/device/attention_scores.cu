// Scores of attention: z = scale * (q . k), a chain product (docs/numerics.md 7).
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/attention_keys.h"
#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/four_numbers.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

GPU_DEVICE KeyAddress CachedKey(const AttentionArguments& a, const uint8_t* cached, int64_t row) {
  if (cached == nullptr) {
    SetFault(a.fault, Fault::kKeyNotCached, row);
    return 0;
  }
  return AddressOf(a.lists, cached);
}

// The slots of a row: first the window, then the compressed rows.
struct RowSlots {
  GPU_DEVICE static int64_t Count(const AttentionArguments& a, int64_t row) {
    return a.sliding_window +
           (a.selected.cols > 0 ? a.selected.cols : VisibleRows(a.batch.positions[row], a.ratio));
  }

  GPU_DEVICE static KeyAddress FindKey(const AttentionArguments& a, int64_t row, int64_t slot) {
    const Segment& segment = FindSegment(a.batch, row);
    const int64_t position = a.batch.positions[row];
    if (slot < a.sliding_window) {
      const int64_t before = position - a.sliding_window + 1;
      const int64_t p = (before > 0 ? before : 0) + slot;
      if (p > position) return 0;
      if (p >= segment.first_position) {
        return AddressOf(a.lists, a.keys.Row(segment.first_row + p - segment.first_position));
      }
      return CachedKey(a, a.window.Row(segment.sequence, p), row);
    }
    const int64_t i = slot - a.sliding_window;
    if (a.selected.cols == 0) {
      return CachedKey(a, a.compressed.Row(segment.sequence, i), row);
    }
    const int64_t c = a.selected.Row(row)[i];
    const bool gathered = a.gathered.cols > 0;
    if (c >= (gathered ? a.gathered.rows : VisibleRows(position, a.ratio))) {
      SetFault(a.fault, Fault::kRowNotVisible, row);
      return 0;
    }
    if (c < 0) return 0;
    return gathered ? AddressOf(a.lists, a.gathered.Row(c))
                    : CachedKey(a, a.compressed.Row(segment.sequence, c), row);
  }
};

// The slots of a row of a block of drafts: first the ring of the window, then the block's own.
struct BlockSlots {
  GPU_DEVICE static int64_t Count(const AttentionArguments& a, int64_t row) {
    const Segment& segment = FindSegment(a.batch, row);
    return segment.n_tokens +
           FilledSlots(segment.first_position, static_cast<int32_t>(a.sliding_window));
  }

  GPU_DEVICE static KeyAddress FindKey(const AttentionArguments& a, int64_t row, int64_t slot) {
    const Segment& segment = FindSegment(a.batch, row);
    const int32_t end = segment.first_position;
    const auto window = static_cast<int32_t>(a.sliding_window);
    const int32_t n_filled = FilledSlots(end, window);
    if (slot >= n_filled)
      return AddressOf(a.lists, a.keys.Row(segment.first_row + slot - n_filled));
    const int32_t p = PositionInRing(static_cast<int32_t>(slot), end, window);
    return CachedKey(a, a.window.Row(segment.sequence, p), row);
  }
};

// A block computes the scores of 64 slots for some heads. Four chains of 128 dimensions, each by 64
// threads, are computed at a time, in steps of 16 dimensions, which are widened to shared memory
// while the threads compute the step before.
constexpr int kChains = 4;
constexpr int kChainThreads = kScoreShape.threads / kChains;
constexpr int kStepDims = 16;  // of each chain
constexpr uint32_t kChainDims = uint32_t{kScoreChain};
constexpr int kColumns = kChains * kStepDims / 4;  // FourNumbers of a step
// Rows of shared memory: an odd number of FourNumbers, so that eight neighbouring rows have a
// column in different banks.
constexpr int kStride = kColumns + 1;
constexpr int kSlotTiles = 16;
constexpr int kTileSlots = kAttentionBlock / kSlotTiles;  // slots of a thread
constexpr int kHeadTiles = kChainThreads / kSlotTiles;

// Finds the keys of the block's slots. Returns false to all threads if there are none.
template <class Slots, class Keys>
GPU_DEVICE bool FindKeys(const AttentionArguments& a, int64_t row, int64_t first, Keys& keys) {
  constexpr int kGroups = kAttentionBlock / kGroupThreads;
  GPU_SHARED(int32_t, has_keys, kGroups);
  if (ThreadX() < kAttentionBlock) {
    const int64_t slot = first + ThreadX();
    const KeyAddress key = slot < Slots::Count(a, row) ? Slots::FindKey(a, row, slot) : 0;
    keys[ThreadX()] = key;
    const int32_t found = LargestOfGroup(key != 0 ? 1 : 0);
    if (GroupLane() == 0) has_keys[ThreadX() / kGroupThreads] = found;
  }
  SyncBlock();
  int32_t found = 0;
  for (int group = 0; group < kGroups; ++group) {
    found |= static_cast<int32_t>(has_keys[group]);
  }
  return found != 0;
}

// The scores that a block computes.
struct ScoreTile {
  int64_t row;
  int64_t first_head;
  int64_t block;  // of slots
};

template <class Reader, int kTileHeads, class Addresses, class Keys, class Queries>
GPU_DEVICE void Score(const AttentionArguments& a, const ScoreTile& tile,
                      const Addresses& addresses, Keys& keys, Queries& queries) {
  constexpr int kHeads = kHeadTiles * kTileHeads;
  const auto head_dim = static_cast<uint32_t>(a.window.rows.layout.head_dim);
  // Two pieces of keys that the thread widens: their slots and column. The first eight threads have
  // four columns of two slots, which lie in different banks.
  constexpr int kPieces = 2;
  const int piece = (ThreadX() & 3) | (ThreadX() >> 1 & 4);
  const int piece_slot = (ThreadX() >> 2 & 1) | ThreadX() >> 4 << 1;
  const auto piece_dim = static_cast<uint32_t>(piece / 2 * kChainDims + piece % 2 * kPieceDims);
  const int first_piece_at = piece_slot * kStride + 2 * piece;
  const Reader readers[kPieces] = {
      {a.lists, addresses[piece_slot], a.window.rows.layout},
      {a.lists, addresses[piece_slot + kAttentionBlock / 2], a.window.rows.layout}};
  // The numbers of a query that it widens. Heads that are not there have the numbers of another.
  const int query_head = ThreadX() / kColumns;
  const int query_column = ThreadX() % kColumns;
  const auto query_dim =
      static_cast<uint32_t>(query_column / 4 * kChainDims + query_column % 4 * 4);
  const int first_query_at = query_head * kStride + query_column;
  const bool has_query = query_head < kHeads && tile.first_head + query_head < a.heads;
  const Bf16* const query =
      a.q.Row(tile.row) + (tile.first_head + (has_query ? query_head : 0)) * head_dim;
  // The chains that it computes: of slots slot_tile + 16 i with heads head_tile + 4 h.
  const int chain = ThreadX() / kChainThreads;
  const auto chain_dim = static_cast<uint32_t>(chain * kChainDims);
  const int slot_tile = (ThreadX() & 7) | (ThreadX() >> 2 & 8);
  const int head_tile = ThreadX() >> 3 & 3;
  const int first_tile_keys_at = slot_tile * kStride + chain * (kStepDims / 4);
  const int first_tile_queries_at = head_tile * kStride + chain * (kStepDims / 4);
  // The head and slots whose chains it adds.
  const int sum_head = ThreadX() / kSlotTiles;
  const int sum_tile = ThreadX() % kSlotTiles;
  FourNumbers products = {};
  for (uint32_t first_dim = 0; first_dim < head_dim; first_dim += kChains * kChainDims) {
    KeyPiece pieces[kPieces] = {};
    uint32_t query_words[2] = {};
    const auto read = [&](uint32_t dim) {
      if (dim + piece_dim < head_dim || Reader::kReadsBeyondEnd) {
        GPU_UNROLL
        for (int i = 0; i < kPieces; ++i) {
          readers[i].Read(dim + piece_dim, pieces[i]);
        }
      }
      if (dim + query_dim < head_dim || Reader::kReadsBeyondEnd) {
        Reader::ReadQuery(query, dim + query_dim, head_dim, query_words);
      }
    };
    float sums[kTileHeads][kTileSlots] = {};
    const uint32_t rest = head_dim - first_dim;
    const uint32_t end = first_dim + (rest < kChainDims ? rest : kChainDims);
    read(first_dim);
    // Steps alternate between two halves of shared memory.
    int piece_at = first_piece_at;
    int query_at = first_query_at;
    int tile_keys_at = first_tile_keys_at;
    int tile_queries_at = first_tile_queries_at;
    for (uint32_t dim = first_dim; dim < end; dim += kStepDims) {
      GPU_UNROLL
      for (int i = 0; i < kPieces; ++i) {
        FourNumbers low;
        FourNumbers high;
        Widen(pieces[i], readers[i].HasCode(dim + piece_dim), low, high);
        const int at = piece_at + i * (kAttentionBlock / 2 * kStride);
        keys[at] = low;
        keys[at + 1] = high;
      }
      if (query_head < kHeads) {
        FourNumbers numbers;
        WidenBf16(query_words[0], numbers.at[0], numbers.at[1]);
        WidenBf16(query_words[1], numbers.at[2], numbers.at[3]);
        queries[query_at] = numbers;
      }
      SyncBlock();
      if (dim + kStepDims < end) read(dim + kStepDims);
      if (dim + chain_dim < head_dim) {
        GPU_UNROLL
        for (int column = 0; column < kStepDims / 4; ++column) {
          FourNumbers k[kTileSlots];
          GPU_UNROLL
          for (int i = 0; i < kTileSlots; ++i) {
            k[i] = keys[tile_keys_at + (i * kSlotTiles * kStride + column)];
          }
          GPU_UNROLL
          for (int h = 0; h < kTileHeads; ++h) {
            const FourNumbers q = queries[tile_queries_at + (h * kHeadTiles * kStride + column)];
            GPU_UNROLL
            for (int i = 0; i < 4 * kTileSlots; ++i) {
              float& sum = sums[h][i % kTileSlots];
              sum = Fma(q.at[i / kTileSlots], k[i % kTileSlots].at[i / kTileSlots], sum);
            }
          }
        }
      }
      piece_at = 2 * first_piece_at + kAttentionBlock * kStride - piece_at;
      query_at = 2 * first_query_at + kHeads * kStride - query_at;
      tile_keys_at = 2 * first_tile_keys_at + kAttentionBlock * kStride - tile_keys_at;
      tile_queries_at = 2 * first_tile_queries_at + kHeads * kStride - tile_queries_at;
    }
    // The chains, at [chain][head][slot tile], in the memory of keys.
    static_assert(kChains * kHeads * kSlotTiles <= 2 * kAttentionBlock * kStride);
    SyncBlock();
    GPU_UNROLL
    for (int h = 0; h < kTileHeads; ++h) {
      const int head = head_tile + h * kHeadTiles;
      keys[(chain * kHeads + head) * kSlotTiles + slot_tile] =
          FourNumbers{{sums[h][0], sums[h][1], sums[h][2], sums[h][3]}};
    }
    SyncBlock();
    for (uint32_t c = 0; c < kChains && c * kChainDims < rest && sum_head < kHeads; ++c) {
      const FourNumbers chains =
          keys[(static_cast<int>(c) * kHeads + sum_head) * kSlotTiles + sum_tile];
      GPU_UNROLL
      for (int i = 0; i < kTileSlots; ++i) {
        products.at[i] = products.at[i] + chains.at[i];
      }
    }
    SyncBlock();
  }
  if (sum_head >= kHeads || tile.first_head + sum_head >= a.heads) return;
  float* const scores =
      a.lists.weights +
      ((tile.row - a.first_row) * a.heads + tile.first_head + sum_head) * a.lists.Slots() +
      tile.block * kAttentionBlock + sum_tile;
  GPU_UNROLL
  for (int i = 0; i < kTileSlots; ++i) {
    scores[i * kSlotTiles] = a.scale * products.at[i];
  }
}

template <class Slots, int kTileHeads>
GPU_DEVICE void FindKeysAndScore(const AttentionArguments& a) {
  constexpr int kHeads = kHeadTiles * kTileHeads;
  GPU_SHARED(KeyAddress, addresses, kAttentionBlock);
  GPU_SHARED(FourNumbers, keys, 2 * kAttentionBlock * kStride);
  GPU_SHARED(FourNumbers, queries, 2 * kHeads * kStride);
  const int64_t head_groups = TileCount(a.heads, kHeads);
  const int64_t blocks = BlockX() / head_groups;
  const ScoreTile tile = {.row = a.first_row + blocks / a.lists.n_blocks,
                          .first_head = BlockX() % head_groups * kHeads,
                          .block = blocks % a.lists.n_blocks};
  const int64_t first_slot = tile.block * kAttentionBlock;
  const bool has_keys = FindKeys<Slots>(a, tile.row, first_slot, addresses);
  if (ThreadX() < kAttentionBlock) {
    const KeyAddress key = addresses[ThreadX()];
    if (tile.first_head == 0) {
      a.lists.keys[(tile.row - a.first_row) * a.lists.Slots() + first_slot + ThreadX()] = key;
    }
    // The score of a masked slot is ignored: it is computed with any numbers.
    if (key == 0) addresses[ThreadX()] = AddressOf(a.lists, a.q.Row(tile.row));
  }
  if (!has_keys) return;
  SyncBlock();
  if (a.reads_words) {
    Score<WordReader, kTileHeads>(a, tile, addresses, keys, queries);
  } else {
    Score<NumberReader, kTileHeads>(a, tile, addresses, keys, queries);
  }
}

}  // namespace

GPU_RESIDENT_KERNEL(AttentionScores, 2, AttentionArguments a) {
  FindKeysAndScore<RowSlots, kScoreShape.heads / kHeadTiles>(a);
}

GPU_RESIDENT_KERNEL(WideAttentionScores, 2, AttentionArguments a) {
  FindKeysAndScore<RowSlots, kWideScoreShape.heads / kHeadTiles>(a);
}

// Kernels of their own: both kinds of slots together need more registers.
GPU_RESIDENT_KERNEL(BlockAttentionScores, 2, AttentionArguments a) {
  FindKeysAndScore<BlockSlots, kScoreShape.heads / kHeadTiles>(a);
}

}  // namespace fathom::kernels::gpu
