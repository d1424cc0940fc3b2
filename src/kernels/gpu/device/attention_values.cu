// Values of attention: o = o * c + p . v, slots in order, then o / l and the inverse rotation
// (docs/numerics.md 7).
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/attention_keys.h"
#include "kernels/gpu/device/four_numbers.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// How the threads of a block share the work of a shape. A thread computes four dimensions of
// kTileHeads heads: those of `column` for heads head_tile + kHeadTiles * h.
template <const AttentionShape& kShape>
struct ValueTiles {
  static constexpr int kColumns = kShape.dims / 4;
  static constexpr int kHeadTiles = kShape.threads / kColumns;
  static constexpr int kTileHeads = kShape.heads / kHeadTiles;
  // Rows of shared memory are an odd number of FourNumbers: neighbouring rows have a column in
  // different banks.
  static constexpr int kValueStride = kColumns + 1;                            // of a slot
  static constexpr int kWeightStride = kShape.slots / 4 + 1;                   // of a head
  static constexpr int kValues = kShape.slots * kValueStride;                  // of a step
  static constexpr int kWeights = kShape.heads * kWeightStride;                // of a step
  static constexpr int kSlotPieces = kColumns / 2;                             // pieces of a slot
  static constexpr int kPieces = kShape.slots * kSlotPieces / kShape.threads;  // of a thread
  static constexpr int kPieceSlots = kShape.slots / kPieces;                   // apart
  static constexpr int kQuads = kShape.heads * kShape.slots / 4 / kShape.threads;
  static constexpr int kQuadHeads = kShape.heads / kQuads;  // apart
  static constexpr bool kIsWide = kSlotPieces >= 4;

  // The slot and place of the first piece that a thread widens. Eight neighbouring threads have
  // pieces that lie in different banks.
  GPU_DEVICE static int PieceSlot(int thread) {
    return kIsWide ? (thread >> 2 & 1) | thread / (2 * kSlotPieces) << 1
                   : (thread & 7) | thread / (8 * kSlotPieces) << 3;
  }
  GPU_DEVICE static int Piece(int thread) {
    return kIsWide ? (thread & 3) | (thread >> 3) % (kSlotPieces / 4) << 2
                   : (thread >> 3) % kSlotPieces;
  }
  GPU_DEVICE static int Column(int thread) {
    return kIsWide ? (thread & 7) | thread / (8 * kHeadTiles) << 3 : thread % kColumns;
  }
  GPU_DEVICE static int HeadTile(int thread) {
    return kIsWide ? (thread >> 3) % kHeadTiles : thread / kColumns;
  }
};

struct ValueTile {
  int64_t row;
  int64_t first_head;
  int64_t first_dim;
};

template <class Reader, const AttentionShape& kShape, class Values, class Weights>
GPU_DEVICE void AddValues(const AttentionArguments& a, const ValueTile& tile, Values& values,
                          Weights& weights) {
  using Tiles = ValueTiles<kShape>;
  constexpr int kTileHeads = Tiles::kTileHeads;
  constexpr int kStepsOfBlock = kAttentionBlock / kShape.slots;
  const int64_t list = tile.row - a.first_row;
  const auto head_dim = static_cast<uint32_t>(a.window.rows.layout.head_dim);
  const int64_t n_slots = a.lists.Slots();
  const int column = Tiles::Column(ThreadX());
  const int head_tile = Tiles::HeadTile(ThreadX());
  // Pieces of keys that the thread widens.
  const int piece_slot = Tiles::PieceSlot(ThreadX());
  const int piece = Tiles::Piece(ThreadX());
  const auto piece_dim = static_cast<uint32_t>(tile.first_dim + piece * kPieceDims);
  const bool has_piece = piece_dim < head_dim;
  const KeyAddress* next_key = a.lists.keys + list * n_slots + piece_slot;
  // Four probabilities of a head each that it copies.
  const int quad = ThreadX() % (kShape.slots / 4);
  const int quad_head = ThreadX() / (kShape.slots / 4);
  const float* next_weights =
      a.lists.weights + (list * a.heads + tile.first_head + quad_head) * n_slots + 4 * quad;
  // The heads whose values it computes.
  const int64_t first_index = list * a.heads + tile.first_head + head_tile;
  const auto has_head = [&](int h) {
    return tile.first_head + head_tile + h * Tiles::kHeadTiles < a.heads;
  };
  const float* next_factors = a.lists.factors + first_index * a.lists.n_blocks;
  KeyAddress keys[Tiles::kPieces] = {};
  bool has_codes[Tiles::kPieces] = {};
  KeyPiece pieces[Tiles::kPieces] = {};
  FourNumbers quads[Tiles::kQuads] = {};
  float factor[kTileHeads] = {};
  const auto read_keys = [&] {
    GPU_UNROLL
    for (int i = 0; i < Tiles::kPieces; ++i) {
      keys[i] = next_key[i * Tiles::kPieceSlots];
    }
    next_key += kShape.slots;
  };
  const auto read_numbers = [&](int32_t step) {
    GPU_UNROLL
    for (int i = 0; i < Tiles::kPieces; ++i) {
      if (!has_piece) continue;
      const KeyAddress key = keys[i] != 0 ? keys[i] : AddressOf(a.lists, a.lists.masked);
      const Reader reader(a.lists, key, a.window.rows.layout);
      has_codes[i] = reader.HasCode(piece_dim);
      reader.Read(piece_dim, pieces[i]);
    }
    GPU_UNROLL
    for (int i = 0; i < Tiles::kQuads; ++i) {
      if (tile.first_head + quad_head + i * Tiles::kQuadHeads < a.heads) {
        const auto four =
            *reinterpret_cast<const FourNumbers*>(next_weights + i * Tiles::kQuadHeads * n_slots);
        GPU_UNROLL
        for (int j = 0; j < 4; ++j) {  // not as a whole, which clang does not keep in registers
          quads[i].at[j] = four.at[j];
        }
      }
    }
    next_weights += kShape.slots;
    if (step % kStepsOfBlock != 0) return;
    GPU_UNROLL
    for (int h = 0; h < kTileHeads; ++h) {
      if (has_head(h)) factor[h] = next_factors[h * Tiles::kHeadTiles * a.lists.n_blocks];
    }
    ++next_factors;
  };
  const int32_t n_steps = a.lists.ends[list] * kStepsOfBlock;
  float o[kTileHeads][4] = {};
  if (n_steps > 0) {
    read_keys();
    read_numbers(0);
  }
  if (n_steps > 1) read_keys();
  const int first_value_at = piece_slot * Tiles::kValueStride + 2 * piece;
  const int first_weight_at = quad_head * Tiles::kWeightStride + quad;
  int values_at = 0;
  int weights_at = 0;
  for (int32_t step = 0; step < n_steps; ++step) {
    GPU_UNROLL
    for (int i = 0; i < Tiles::kPieces; ++i) {
      FourNumbers low;
      FourNumbers high;
      Widen(pieces[i], has_codes[i], low, high);
      const int at = values_at + first_value_at + i * (Tiles::kPieceSlots * Tiles::kValueStride);
      values[at] = low;
      values[at + 1] = high;
    }
    GPU_UNROLL
    for (int i = 0; i < Tiles::kQuads; ++i) {
      weights[weights_at + first_weight_at + i * (Tiles::kQuadHeads * Tiles::kWeightStride)] =
          quads[i];
    }
    if (step % kStepsOfBlock == 0) {
      GPU_UNROLL
      for (int i = 0; i < 4 * kTileHeads; ++i) {
        o[i / 4][i % 4] = o[i / 4][i % 4] * factor[i / 4];
      }
    }
    SyncBlock();
    if (step + 1 < n_steps) read_numbers(step + 1);
    if (step + 2 < n_steps) read_keys();
    GPU_UNROLL
    for (int slot = 0; slot < kShape.slots; slot += 4) {
      FourNumbers v[4];
      GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        v[i] = values[values_at + column + (slot + i) * Tiles::kValueStride];
      }
      GPU_UNROLL
      for (int h = 0; h < kTileHeads; ++h) {
        const FourNumbers p = weights[weights_at + head_tile * Tiles::kWeightStride +
                                      (h * Tiles::kHeadTiles * Tiles::kWeightStride + slot / 4)];
        GPU_UNROLL
        for (int i = 0; i < 16; ++i) {
          o[h][i % 4] = Fma(p.at[i / 4], v[i / 4].at[i % 4], o[h][i % 4]);
        }
      }
    }
    values_at = Tiles::kValues - values_at;
    weights_at = Tiles::kWeights - weights_at;
  }
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = head_dim - 2 * pairs;
  GPU_UNROLL
  for (int h = 0; h < kTileHeads; ++h) {
    if (!has_head(h)) continue;
    const float denominator = a.lists.denominators[first_index + h * Tiles::kHeadTiles];
    Bf16* const out = a.out.Row(tile.row) + (tile.first_head + head_tile + h * Tiles::kHeadTiles) *
                                                static_cast<int64_t>(head_dim);
    GPU_UNROLL
    for (int i = 0; i < 4; i += 2) {  // head_dim is even
      const int64_t dim = tile.first_dim + 4 * column + i;
      if (dim >= head_dim) continue;
      RotatedPair pair = {ToBf16(Div(o[h][i], denominator)), ToBf16(Div(o[h][i + 1], denominator))};
      if (dim >= plain) {
        const int64_t k = (dim - plain) / 2;
        pair = Rotate(pair.x, pair.y, a.rope.cos.Row(tile.row)[k], -a.rope.sin.Row(tile.row)[k]);
      }
      out[dim] = pair.x;
      out[dim + 1] = pair.y;
    }
  }
}

template <const AttentionShape& kShape>
GPU_DEVICE void AddValuesOfRow(const AttentionArguments& a) {
  GPU_SHARED(FourNumbers, values, 2 * ValueTiles<kShape>::kValues);
  GPU_SHARED(FourNumbers, weights, 2 * ValueTiles<kShape>::kWeights);
  const int64_t head_groups = TileCount(a.heads, kShape.heads);
  const int64_t slices = TileCount(a.keys.cols, kShape.dims);
  const int64_t group = BlockX() / head_groups;
  const ValueTile tile = {.row = a.first_row + group / slices,
                          .first_head = BlockX() % head_groups * kShape.heads,
                          .first_dim = group % slices * kShape.dims};
  if (a.reads_words) {
    AddValues<WordReader, kShape>(a, tile, values, weights);
  } else {
    AddValues<NumberReader, kShape>(a, tile, values, weights);
  }
}

}  // namespace

GPU_RESIDENT_KERNEL(AttentionValues, 2, AttentionArguments a) { AddValuesOfRow<kValueShape>(a); }

GPU_RESIDENT_KERNEL(WideAttentionValues, 2, AttentionArguments a) {
  AddValuesOfRow<kWideValueShape>(a);
}

}  // namespace fathom::kernels::gpu
