// Products of quantised weights by many rows of activations on the matrix unit of AMX.
//
// tdpbf16ps adds to each of 16 x 16 sums the products of up to 16 pairs of bf16 numbers: the
// products of the lower halves as one chain of fused multiply-adds from zero, the products of the
// upper halves as another; the two are added, then their sum to the sum in the tile. This order is
// part of the architecture (Intel's manual, TDPBF16PS). With the pairs of tile_formats.h it is one
// lane and block of docs/numerics.md 2: a tile holds the sums of one lane for 16 rows of weights
// and 16 tokens, and needs no more memory until the tree over the lanes.
//
// An instruction takes 16 cycles however few of the 16 pairs are used; with 4 (FP4) or 8 halves
// (FP8) it does four times as many multiply-adds per cycle as fp32 registers.
#include "kernels/cpu/tiles/tile_formats.h"
#include "kernels/cpu/vector/isa_functions.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int kLaneCount = 16;
constexpr int kQuarters = 4;  // quarters of the lanes
constexpr int kQuarterLanes = kLaneCount / kQuarters;
constexpr int kPanelTiles = 2;      // tiles of weight rows that are expanded together
constexpr int kMostTokenTiles = 4;  // token tiles that share an expansion
constexpr int kTileFloats = kTileSide * kTileSide;

// Blocks that are expanded before they are multiplied, so that the stores are done by then.
constexpr int kAhead = 2;
constexpr uint64_t kRing = 4;

// The workspace of a thread.
struct Workspace {
  alignas(64) uint8_t activations[1024 * 1024];  // tiles [token tile][lane][block]
  alignas(64) uint8_t weights[512 * 1024];       // tiles [row tile][lane of a quarter][block]
  alignas(64) float sums[kPanelTiles][kMostTokenTiles][kLaneCount][kTileFloats];
  alignas(64) float parts[kMaxParts][kPanelTiles * kMostTokenTiles * kTileFloats];
};
static_assert(sizeof(Workspace) <= cpu::kTileWorkspace);

// Bytes of a tile of weights or activations: 16 rows of kSteps pairs, or kSteps rows of 16 pairs.
template <class Format>
constexpr int64_t kTileBytes = Format::kSteps*(kTileSide * 4);
template <class Format>
constexpr int64_t kTileRowBytes = Format::kSteps * 4;  // bytes per row of a tile of weights
// Bytes of the activations of 16 tokens, all lanes, per block of k.
template <class Format>
constexpr int64_t kTokenTileBytes = kTileBytes<Format>*(kLaneCount / Format::kShared);

// Sets the shapes of the tiles: 0 to 3 sums, 4 and 5 weights, 6 and 7 activations.
template <class Format>
void Configure() {
  struct {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } shapes;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.row_bytes[tile] = tile == 4 || tile == 5 ? 4 * Format::kSteps : 4 * kTileSide;
    shapes.rows[tile] = tile < 6 ? kTileSide : Format::kSteps;
  }
  ForgetMemory();  // the compiler does not know that the instruction reads the whole struct
  _tile_loadconfig(&shapes);
}

inline void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Stores the four tiles of sums.
inline void StoreSums(float* first, float* second, float* third, float* fourth) {
  _tile_stored(0, first, 64);
  _tile_stored(1, second, 64);
  _tile_stored(2, third, 64);
  _tile_stored(3, fourth, 64);
  ForgetMemory();
}

// Adds to the sums of one lane, for two tiles of weights and two of activations: each tile is
// loaded once for two products. weight_bytes, token_bytes, weight_sums, token_sums: the distance
// between the two tiles.
template <class Format>
void SumSquare(const uint8_t* weights, int64_t weight_bytes, const uint8_t* activations,
               int64_t token_bytes, int64_t blocks, float* sums, int64_t weight_sums,
               int64_t token_sums) {
  constexpr int64_t kBytes = kTileBytes<Format>;
  constexpr int64_t kRow = kTileRowBytes<Format>;
  ForgetMemory();
  ZeroSums();
  for (int64_t i = 0; i < blocks; ++i) {
    const uint8_t* w = weights + i * kBytes;
    const uint8_t* x = activations + i * kBytes;
    _tile_loadd(4, w, kRow);
    _tile_loadd(6, x, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, x + token_bytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, w + weight_bytes, kRow);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  StoreSums(sums, sums + token_sums, sums + weight_sums, sums + weight_sums + token_sums);
}

// Adds a block to the sums of four lanes, for one tile of weights and one of activations.
template <class Format>
[[gnu::always_inline]] inline void AddLanesOfBlock(const uint8_t* w, const uint8_t* x,
                                                   int64_t activation_bytes) {
  constexpr int64_t kWeightLane = kTileRowBytes<Format>;  // the lanes are side by side in a row
  constexpr int64_t kRow = kQuarterLanes * kWeightLane;
  ForgetMemory();
  _tile_loadd(4, w, kRow);
  _tile_loadd(6, x, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(5, w + Format::kPlaces[1] * kWeightLane, kRow);
  if constexpr (Format::kShared == 2) {
    _tile_dpbf16ps(1, 5, 6);
  } else {
    _tile_loadd(7, x + activation_bytes, 64);
    _tile_dpbf16ps(1, 5, 7);
  }
  _tile_loadd(4, w + Format::kPlaces[2] * kWeightLane, kRow);
  _tile_loadd(6, x + 2 / Format::kShared * activation_bytes, 64);
  _tile_dpbf16ps(2, 4, 6);
  _tile_loadd(5, w + 3 * kWeightLane, kRow);
  if constexpr (Format::kShared == 2) {
    _tile_dpbf16ps(3, 5, 6);
  } else {
    _tile_loadd(7, x + 3 * activation_bytes, 64);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// The tokens of a call that are multiplied together.
template <class Format>
struct Task {
  const cpu::Product& product;
  Workspace& workspace;
  int64_t first_token;
  int tokens;
  int64_t blocks;  // blocks of k

  int TokenTiles() const { return (tokens + kTileSide - 1) / kTileSide; }
  // Return the bytes of packed activations of the lanes that share them, and of a tile of tokens.
  int64_t LaneBytes() const { return blocks * kTileBytes<Format>; }
  int64_t TokenTileBytes() const { return blocks * kTokenTileBytes<Format>; }
  const uint8_t* Activations(int token_tile, int lane, int64_t block) const {
    return workspace.activations + token_tile * TokenTileBytes() +
           lane / Format::kShared * LaneBytes() + block * kTileBytes<Format>;
  }
  int64_t FirstBlock(int part) const { return blocks * part / product.k_parts; }
};

// Packs the activations of the task's tokens; absent tokens are zeros. Returns at least the largest
// scale.
template <class Format>
float PackActivations(const Task<Format>& task) {
  constexpr int kColumns = kLaneCount / Format::kShared;
  constexpr int kFloats = Format::kSteps * kColumns;
  float largest = 0;
  for (int tile = 0; tile < task.TokenTiles(); ++tile) {
    const int first = tile * kTileSide;
    const int count = task.tokens - first < kTileSide ? task.tokens - first : kTileSide;
    ProductRow rows[kTileSide];
    for (int i = 0; i < count; ++i) {
      rows[i] = RowOfActivations<Fp8>(task.product, task.first_token + first + i);
    }
    alignas(64) float numbers[kTileSide * kFloats] = {};
    uint8_t* to = task.workspace.activations + tile * task.TokenTileBytes();
    for (int64_t block = 0; block < task.blocks; ++block, to += kTileBytes<Format>) {
      for (int i = 0; i < count; ++i) {
        const float scale = Format::Pack(rows[i], block, numbers + i * kFloats);
        largest = scale <= largest ? largest : scale;  // keeps NaN
      }
      for (int step = 0; step < Format::kSteps; ++step) {
        for (int column = 0; column < kColumns; column += 4) {
          F32 columns[4];
          LoadColumns(numbers + step * kColumns + column, kFloats, columns);
          for (int i = 0; i < 4; ++i) {
            Store(reinterpret_cast<float*>(to + (column + i) * task.LaneBytes()) + step * kTileSide,
                  columns[i]);
          }
        }
      }
    }
  }
  return largest;
}

// A tile of 16 rows of a weight.
struct WeightTile {
  WeightTile(const cpu::Product& product, int64_t n)
      : row_bytes(product.row_bytes),
        scale_bytes(product.format == cpu::ProductFormat::kFp4 ? product.scale_columns : 0) {
    const WeightRow row = WeightRowAt(product, n);
    bytes = row.bytes;
    scales = row.scales;
  }

  const uint8_t* bytes;
  const uint8_t* scales;
  int64_t row_bytes;
  int64_t scale_bytes;  // between the scales of adjacent rows
};

// Expands a block of one quarter of the lanes.
template <class Format, int64_t kLaneBytes>
[[gnu::always_inline]] inline void ExpandBlock(const WeightTile& tile, int64_t block, int quarter,
                                               int64_t lane_bytes, uint8_t* out) {
  constexpr int64_t kRow = kLaneBytes == 0 ? kTileRowBytes<Format> : kQuarterLanes * kLaneBytes;
  // A copy, because the compiler must assume that the stores change `tile`.
  const WeightTile rows = tile;
  const uint8_t* bytes = rows.bytes;
  const uint8_t* scales = rows.scales;
  const typename Format::Codes codes(scales[block]);
#pragma GCC unroll 4
  for (int r = 0; r < kTileSide; r += Format::kRowsAtOnce) {
    Format::template Expand<kLaneBytes>(codes, bytes, rows.row_bytes, scales, block, quarter,
                                        lane_bytes, out + r * kRow);
    bytes += Format::kRowsAtOnce * rows.row_bytes;
    scales += rows.scale_bytes;
  }
}

// Prefetches the i-th piece of `bytes` into the second-level cache. A tile of rows has as many
// pieces as quarters of blocks, and is fetched from memory in the order of addresses, which the
// processor's own prefetching follows.
template <class Format>
[[gnu::always_inline]] inline void PrefetchPiece(const uint8_t* bytes, int64_t i) {
  constexpr int64_t kPiece = kTileSide * Format::kBlockBytes / kQuarters;
  for (int64_t line = 0; line < kPiece; line += 64) {
    __builtin_prefetch(bytes + i * kPiece + line, 0, 2);
  }
}

// Expands the blocks of a range of rows in the order in which one tile of tokens needs them (by
// tile of rows, part of k, quarter of the lanes, block), each into the next place of a ring.
template <class Format>
class WeightStream {
 public:
  WeightStream(const Task<Format>& task, int64_t first, int64_t end)
      : task_(task),
        ring_(task.workspace.weights),
        tile_(task.product, first),
        row_(first),
        end_(end),
        end_block_(task.FirstBlock(1)) {
    for (int i = 0; i < kAhead; ++i) {
      Expand();
    }
  }

  // Returns the block that was expanded kAhead calls ago, and expands one more.
  [[gnu::always_inline]] const uint8_t* Next() {
    if (row_ < end_) {
      Expand();
    }
    const uint8_t* block = Place(taken_);
    ++taken_;
    return block;
  }

 private:
  uint8_t* Place(uint64_t i) const {
    return ring_ + i % kRing * (kQuarterLanes * kTileBytes<Format>);
  }

  [[gnu::always_inline]] void Expand() {
    ExpandBlock<Format, kTileRowBytes<Format>>(tile_, block_, quarter_, 0, Place(expanded_));
    PrefetchPiece<Format>(tile_.bytes + kTileSide * tile_.row_bytes, piece_++);
    ++expanded_;
    if (++block_ == end_block_) [[unlikely]] {
      NextQuarter();
    }
  }

  [[gnu::noinline]] void NextQuarter() {
    if (++quarter_ == kQuarters) {
      quarter_ = 0;
      if (++part_ == task_.product.k_parts) {
        part_ = 0;
        row_ += kTileSide;
        if (row_ < end_) {
          tile_ = WeightTile(task_.product, row_);
          piece_ = 0;
        }
      }
    }
    block_ = task_.FirstBlock(part_);
    end_block_ = task_.FirstBlock(part_ + 1);
  }

  const Task<Format>& task_;
  uint8_t* const ring_;
  WeightTile tile_;
  int64_t row_;
  const int64_t end_;
  int part_ = 0;
  int quarter_ = 0;
  int64_t block_ = 0;
  int64_t end_block_;  // end block of the part
  int64_t piece_ = 0;
  uint64_t expanded_ = 0;
  uint64_t taken_ = 0;
};

// Adds the lanes of one tile by the tree.
void AddLanes(const float (&lanes)[kLaneCount][kTileFloats], float* out) {
  for (int row = 0; row < kTileFloats; row += kLanes) {
    F32 v[kLaneCount];
    for (int lane = 0; lane < kLaneCount; ++lane) {
      v[lane] = Load(lanes[lane] + row);
    }
    for (int half = kLaneCount / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) {
        v[lane] = v[lane] + v[lane + half];
      }
    }
    Store(out + row, v[0]);
  }
}

// Writes a tile, [row of weights][token], for its first `tokens` tokens.
void WriteTile(const cpu::Product& product, int64_t first_token, int tokens, int64_t first_row,
               const float* tile) {
  alignas(64) float turned[kTileFloats];
  for (int i = 0; i < kTileSide; i += 4) {
    F32 columns[4];
    LoadColumns(tile + i, kTileSide, columns);
    for (int j = 0; j < 4; ++j) {
      Store(turned + (i + j) * kTileSide, columns[j]);
    }
  }
  for (int i = 0; i < tokens; ++i) {
    WriteValues(product, first_token + i, first_row, turned + i * kTileSide, kTileSide);
  }
}

// Adds the parts of k, and writes `tiles` tiles of rows from row n on.
template <class Format>
void WriteRows(const Task<Format>& task, int64_t n, int tiles) {
  Workspace& space = task.workspace;
  constexpr int kPartFloats = kPanelTiles * kMostTokenTiles * kTileFloats;
  AddParts(task.product.k_parts, kPartFloats, space.parts[0], kPartFloats);
  for (int tile = 0; tile < tiles; ++tile) {
    for (int token = 0; token < task.TokenTiles(); ++token) {
      const int tokens = task.tokens - token * kTileSide;
      WriteTile(task.product, task.first_token + token * kTileSide,
                tokens < kTileSide ? tokens : kTileSide, n + tile * kTileSide,
                space.parts[0] + (tile * kMostTokenTiles + token) * kTileFloats);
    }
  }
}

// Computes rows [first, end) with one tile of tokens: blocks are expanded beside products.
template <class Format>
void MultiplyOneTile(const Task<Format>& task, int64_t first, int64_t end) {
  Workspace& space = task.workspace;
  auto& sums = space.sums[0][0];
  const int64_t lane_bytes = task.LaneBytes();
  WeightStream<Format> stream(task, first, end);
  for (int64_t n = first; n < end; n += kTileSide) {
    for (int p = 0; p < task.product.k_parts; ++p) {
      const int64_t blocks = task.FirstBlock(p + 1) - task.FirstBlock(p);
      for (int lane = 0; lane < kLaneCount; lane += kQuarterLanes) {
        ZeroSums();
        const uint8_t* activations = task.Activations(0, lane, task.FirstBlock(p));
        for (int64_t i = 0; i < blocks; ++i, activations += kTileBytes<Format>) {
          const uint8_t* weights = stream.Next();
          AddLanesOfBlock<Format>(weights, activations, lane_bytes);
        }
        StoreSums(sums[lane], sums[lane + 1], sums[lane + 2], sums[lane + 3]);
      }
      AddLanes(sums, space.parts[p]);
    }
    WriteRows(task, n, 1);
  }
}

// Sets space.sums to the sums of all lanes over the blocks of one part of k, for kPanelTiles tiles
// of rows from row n on.
template <class Format>
void SumPanel(const Task<Format>& task, int64_t n, int part) {
  Workspace& space = task.workspace;
  const int64_t first = task.FirstBlock(part);
  const int64_t blocks = task.FirstBlock(part + 1) - first;
  const int64_t lane_bytes = blocks * kTileBytes<Format>;
  const int64_t tile_bytes = kQuarterLanes * lane_bytes;
  constexpr int64_t kTokenSums = kLaneCount * kTileFloats;
  const int token_tiles = task.TokenTiles();
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    for (int t = 0; t < kPanelTiles; ++t) {
      const WeightTile tile(task.product, n + t * kTileSide);
      for (int64_t i = 0; i < blocks; ++i) {
        ExpandBlock<Format, 0>(tile, first + i, quarter, lane_bytes,
                               space.weights + t * tile_bytes + i * kTileBytes<Format>);
        PrefetchPiece<Format>(tile.bytes + kPanelTiles * kTileSide * tile.row_bytes,
                              kQuarters * first + quarter * blocks + i);
      }
    }
    ForgetMemory();
    for (int i = 0; i < kQuarterLanes; ++i) {
      const int lane = quarter * kQuarterLanes + i;
      const uint8_t* weights = space.weights + i * lane_bytes;
      // With an odd number of tiles, the last two are computed once more.
      for (int token = 0; token < token_tiles; token += 2) {
        const int at = token + 2 <= token_tiles ? token : token_tiles - 2;
        SumSquare<Format>(weights, tile_bytes, task.Activations(at, lane, first),
                          task.TokenTileBytes(), blocks, space.sums[0][at][lane],
                          kMostTokenTiles * kTokenSums, kTokenSums);
      }
    }
  }
}

// Computes rows [first, end), a multiple of kPanelTiles tiles, with several tiles of tokens, which
// share an expansion.
template <class Format>
void MultiplyPanels(const Task<Format>& task, int64_t first, int64_t end) {
  Workspace& space = task.workspace;
  for (int64_t n = first; n < end; n += kPanelTiles * kTileSide) {
    for (int p = 0; p < task.product.k_parts; ++p) {
      SumPanel(task, n, p);
      for (int tile = 0; tile < kPanelTiles; ++tile) {
        for (int token = 0; token < task.TokenTiles(); ++token) {
          AddLanes(space.sums[tile][token],
                   space.parts[p] + (tile * kMostTokenTiles + token) * kTileFloats);
        }
      }
    }
    WriteRows(task, n, kPanelTiles);
  }
}

// Returns the product of tokens [first, first + count) only.
cpu::Product WithTokens(cpu::Product product, int64_t first, int64_t count) {
  if (product.rows_in != nullptr) {
    product.rows_in += first;
  } else {
    product.x += first * product.x_stride;
    product.x_scales += first * product.scale_stride;
  }
  if (product.rows_out != nullptr) {
    product.rows_out += first;
  } else if (product.out_bf16 != nullptr) {
    product.out_bf16 += first * product.out_stride;
  } else {
    product.out_float += first * product.out_stride;
  }
  product.t = count;
  return product;
}

// Computes rows [first, end) of the weight, whole tiles.
template <class Format>
void MultiplyTask(const Task<Format>& task, int64_t first, int64_t end) {
  Configure<Format>();
  if (task.TokenTiles() == 1) {
    MultiplyOneTile(task, first, end);
  } else {
    MultiplyPanels(task, first, end);
  }
  _tile_release();
}

template <class Format>
void MultiplyTiles(const cpu::Product& product, int64_t first, int64_t end) {
  auto& space = *reinterpret_cast<Workspace*>(product.workspace);
  const int64_t blocks = product.k / kBlock;
  const int64_t tile_bytes = blocks * kTokenTileBytes<Format>;
  const int64_t fitting = static_cast<int64_t>(sizeof(space.activations)) / tile_bytes;
  const int64_t tiles = (product.t + kTileSide - 1) / kTileSide;
  const int64_t most = fitting < kMostTokenTiles ? fitting : kMostTokenTiles;
  const int64_t groups = (tiles + most - 1) / most;  // groups of about equal size
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = tiles * g / groups * kTileSide;
    const int64_t limit = tiles * (g + 1) / groups * kTileSide;
    const int64_t count = (limit < product.t ? limit : product.t) - begin;
    const Task<Format> task = {product, space, begin, static_cast<int>(count), blocks};
    // Panels are several tiles; the remaining rows are few.
    const int64_t rows = (task.TokenTiles() == 1 ? 1 : kPanelTiles) * kTileSide;
    int64_t tiled = first + (end - first) / rows * rows;
    if (tiled > first && PackActivations(task) <= kLargestActivationScale) {
      MultiplyTask(task, product.first_row + first, product.first_row + tiled);
    } else {
      tiled = first;
    }
    if (tiled < end) {
      avx512::Table().product(WithTokens(product, begin, count), tiled, end);
    }
  }
}

// Returns true if the scales of rows [first, end) of the weight are in the range of tile_formats.h.
bool ScalesFit(const cpu::Product& product, int64_t first, int64_t end) {
  const int64_t rows_per_scale = product.format == cpu::ProductFormat::kFp4 ? 1 : kBlock;
  const uint8_t* scales = product.scales + first / rows_per_scale * product.scale_columns;
  const int64_t count =
      ((end - 1) / rows_per_scale - first / rows_per_scale + 1) * product.scale_columns;
  return BytesWithin(scales, count, kSmallestScale, kLargestTileScale);
}

static_assert(Fp4Tiles::kFewestRows == 7 && Fp8Tiles::kFewestRows == 5);  // docs/cpu_kernels.md

// Returns true if tiles compute most of the product's rows [first, end).
bool TilesCompute(const cpu::Product& product, int64_t first, int64_t end) {
  const bool is_fp4 = product.format == cpu::ProductFormat::kFp4;
  const bool is_fp8 = product.format == cpu::ProductFormat::kFp8 ||
                      product.format == cpu::ProductFormat::kFp8AsBf16;
  const int64_t first_row = product.first_row + first;
  const int64_t block_bytes = is_fp4 ? kTokenTileBytes<Fp4Tiles> : kTokenTileBytes<Fp8Tiles>;
  const int64_t panel_bytes =
      kPanelTiles * kQuarterLanes * (is_fp4 ? kTileBytes<Fp4Tiles> : kTileBytes<Fp8Tiles>);
  return (is_fp4 || (is_fp8 && first_row % kTileSide == 0)) && product.e8m0_scales &&
         product.t >= (is_fp4 ? Fp4Tiles::kFewestRows : Fp8Tiles::kFewestRows) &&
         end - first >= kTileSide && product.workspace != nullptr &&
         product.k / kBlock * block_bytes <= static_cast<int64_t>(sizeof(Workspace::activations)) &&
         product.k / kBlock * panel_bytes <= static_cast<int64_t>(sizeof(Workspace::weights)) &&
         ScalesFit(product, first_row, product.first_row + end);
}

}  // namespace

void MultiplyRows(const cpu::Product& product, int64_t first, int64_t end) {
  if (!TilesCompute(product, first, end)) {
    return avx512::Table().product(product, first, end);
  }
  product.format == cpu::ProductFormat::kFp4 ? MultiplyTiles<Fp4Tiles>(product, first, end)
                                             : MultiplyTiles<Fp8Tiles>(product, first, end);
}

const cpu::Kernels& Table() {
  static const cpu::Kernels kTable = [] {
    cpu::Kernels table = avx512::Table();
    table.product = MultiplyRows;
    table.workspace_bytes = cpu::kTileWorkspace;
    return table;
  }();
  return kTable;
}

}  // namespace fathom::kernels::KERNEL_ISA
