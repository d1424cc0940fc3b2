// The table of vector kernels that CpuBackend calls; one table per instruction set.
//
// Plain pointers and structs only, because objects built for an instruction set must not
// instantiate anything that other objects instantiate, too (simd.h). bf16 numbers are uint16_t
// here. Every function is a pure function of its arguments, touches only the given range and may
// run on several threads at the same time, on disjoint ranges. Orders of sums and roundings:
// docs/numerics.md.
#pragma once

#include <stdint.h>

#include "kernels/key_layout.h"

namespace fathom::kernels::cpu {

// --- Matrix products

enum class ProductFormat : int {
  kF32,
  kBf16,
  kBf16ByBlocks,  // in the order of kFp8 (products by groups)
  kFp8,           // activations quantised
  kFp8AsBf16,     // weights bf16(e4m3 * scale), activations not quantised (products by groups)
  kFp4,           // activations quantised
};

// Activations are prepared per row and product format: fp32 in the order in which the kernel's
// lanes read them, padded to whole blocks of 128 columns.
inline constexpr int64_t kProductBlock = 128;
constexpr int64_t PaddedColumns(int64_t k) {
  return (k + kProductBlock - 1) / kProductBlock * kProductBlock;
}
// Returns the floats between prepared rows: a cache line more than the columns, because the rows of
// a group are read side by side, and a distance of a power of two would map them to the same few
// sets of the first-level cache.
constexpr int64_t PreparedStride(int64_t k) { return PaddedColumns(k) + 16; }

// Output row i of the product is rows_out[i] (or i where null), input row rows_in[i] (or i).
struct Product {
  ProductFormat format = ProductFormat::kBf16;
  bool e8m0_scales = true;  // for FP8 weights; else F32
  const uint8_t* weights = nullptr;
  const uint8_t* scales = nullptr;
  int64_t row_bytes = 0;
  int64_t scale_columns = 0;
  int64_t first_row = 0;  // the product uses rows [first_row, first_row + n) of the weight
  int64_t n = 0;
  int64_t k = 0;
  int k_parts = 1;
  int64_t t = 0;
  const float* x = nullptr;         // prepared rows, x_stride floats apart
  const float* x_scales = nullptr;  // [.., k / 128], scale_stride apart; not for kF32 and kBf16
  int64_t x_stride = 0;
  int64_t scale_stride = 0;
  const int32_t* rows_in = nullptr;
  const int32_t* rows_out = nullptr;
  float* out_float = nullptr;  // either this or the other output is set
  uint16_t* out_bf16 = nullptr;
  int64_t out_stride = 0;
  uint8_t* workspace = nullptr;  // Kernels::workspace_bytes, used by the calling thread only
};
// Bytes that products with tiles keep in the second-level cache: activations, weights, sums.
inline constexpr int64_t kTileWorkspace = 1024 * 1024 + 512 * 1024 + 192 * 1024;

// --- Others

struct RotaryRow {
  const float* cos = nullptr;  // [pairs]
  const float* sin = nullptr;
  int64_t pairs = 0;
};

struct HyperWeights {
  const float* fn = nullptr;  // [gates, 4 d]
  const float* base = nullptr;
  const float* scale = nullptr;
  int64_t gates = 0;  // 24, or 4 for the head
  int64_t sinkhorn_iterations = 0;
  float eps = 0;
  float norm_eps = 0;
};

// First the chains of all mixes are computed, by threads that divide the blocks of columns; then
// the chains are added, and the rest of each row is computed.
inline constexpr int64_t kHyperBlock = 192;  // columns per chain
inline constexpr int64_t kHyperTile = 32;    // rows that share a copy of a block's weights
inline constexpr int64_t kHyperRows = 128;   // the most rows of a call
struct HyperRows {
  const uint16_t* streams = nullptr;  // [rows, 4 d]
  int64_t d = 0;
  uint16_t* out = nullptr;  // [rows, d]
  float* post = nullptr;    // [rows, 4]; null for the head
  float* comb = nullptr;    // [rows, 16]
  int64_t count = 0;        // rows, at most kHyperRows
  // [4 d / kHyperBlock rounded up, gates + 1, count]; the last chain sums the squares
  float* chains = nullptr;
};

// Up to 64 heads of one token against a list of keys. Unpacking and transposing keys costs less per
// head with more heads; fewer than kHeadGroup heads are not worth a task.
inline constexpr int kTaskHeads = 64;
inline constexpr int kHeadGroup = 8;
inline constexpr int64_t kAttentionBlock = 64;       // slots that share one maximum
inline constexpr int64_t kAttentionValueSlots = 65;  // memory for a block of keys
inline constexpr int64_t kAttentionChain = 128;      // dimensions and
inline constexpr int64_t kAttentionTile = 32;        // slots that are transposed together
struct AttentionTask {
  const uint16_t* q = nullptr;  // [heads, head_dim]
  int64_t heads = 0;            // 1 ... kTaskHeads
  int64_t head_dim = 0;         // a multiple of 32; plain dimensions: a multiple of 64
  float scale = 0;              // 1 / sqrt(head_dim)
  // [n_slots], null: masked. Slots [first_own, end_own) are keys of the batch, bf16; the others
  // are cached keys.
  const uint8_t* const* keys = nullptr;
  int64_t n_slots = 0;
  int64_t first_own = 0;
  int64_t end_own = 0;
  const float* sinks = nullptr;  // [heads]
  RotaryRow rope;                // rotated back at the end
  float* scratch = nullptr;      // AttentionScratch(head_dim) floats
  uint16_t* out = nullptr;       // [heads, head_dim]
};
// Queries are stored in parts of kAttentionChain dimensions, a little further apart than
// kAttentionChain: a power of two would map them to the same few sets of the first-level cache.
inline constexpr int64_t kAttentionPartStride = kAttentionChain + 4;
constexpr int64_t AttentionParts(int64_t head_dim) {
  return (head_dim + kAttentionChain - 1) / kAttentionChain;
}
constexpr int64_t AttentionScratch(int64_t head_dim) {
  return kTaskHeads *
             (AttentionParts(head_dim) * kAttentionPartStride + head_dim + kAttentionBlock) +
         kAttentionChain * kAttentionTile + head_dim * kAttentionValueSlots / 2;
}

// Pools the slots of one compressed row. values[s] and scores[s] point to the channels of slot s;
// the caller leaves out slots before the sequence.
struct PoolTask {
  const float* const* values = nullptr;
  const float* const* scores = nullptr;
  int64_t n_slots = 0;  // 1 ... 128
  int64_t width = 0;
  uint16_t* out = nullptr;  // [width], not yet normalised
};

// Index queries of one token, laid out for Kernels::index_scores by prepare_index.
inline constexpr int64_t kIndexLanes = 16;
struct IndexTask {
  const int8_t* bytes = nullptr;     // [head groups][32 quads][16 heads][4]: twice the value
  const int32_t* offsets = nullptr;  // [head groups][4][16]: 12 times the sum of `bytes`
  const float* scales = nullptr;     // [head groups][4][16]
  const float* weights = nullptr;    // [head groups][16]
  int64_t head_groups = 0;           // groups of 16 heads, padded with zeros
  const uint8_t* rows = nullptr;     // packed index rows, 68 bytes each
  int64_t first = 0;
  int64_t end = 0;
  float* scores = nullptr;  // scores[first ... end) are written
};
inline constexpr int64_t kIndexGroupBytes = 128 * kIndexLanes;

// --- Measurements of the machine's limits (kernels/roofline.h)

struct ReadPattern {
  int streams = 1;                // places read in turn: 1, or 4 equal parts of the bytes
  int64_t prefetch_distance = 0;  // bytes ahead of the loads; 0: left to the hardware
  bool second_level = false;      // prefetch into the second-level cache instead of the first
};
inline constexpr int64_t kReadUnit = 1024;        // ReadMemory takes multiples of so many bytes
inline constexpr int64_t kMultiplyAddUnit = 192;  // MultiplyAdds takes multiples of this count

struct Kernels {
  // x [k] bf16 -> prepared [PaddedColumns(k)], scales [k / 128] except for kF32 and kBf16.
  void (*prepare)(ProductFormat format, const uint16_t* x, int64_t k, float* out, float* scales);
  int64_t workspace_bytes = 0;  // memory for a product, a multiple of 64
  // Columns of FP8 weights that share the data that a product makes from many rows of activations.
  int64_t sharing_columns = 1;
  // Computes rows [first, end) of the product's n; row i of the weight is column i of the output.
  void (*product)(const Product& product, int64_t first, int64_t end);

  void (*rms_norm)(const uint16_t* x, const uint16_t* weight, float eps, int64_t d, uint16_t* out);
  // out = bf(factor * activation); factor null: not multiplied.
  void (*swiglu)(const uint16_t* gate, const uint16_t* up, float clamp, const float* factor,
                 int64_t n, uint16_t* out);
  void (*query_head)(uint16_t* q, int64_t head_dim, float eps, const RotaryRow& rope);
  void (*rotate)(uint16_t* x, const RotaryRow& rope);
  void (*simulate_fp8)(uint16_t* x, int64_t n);  // n: a multiple of 64
  // x [head_dim] -> packed [KeyBytes]; the plain dimensions are quantised.
  void (*pack_key)(const uint16_t* x, const KeyLayout& layout, uint8_t* packed);
  void (*pack_index)(const uint16_t* x, uint8_t* packed);  // Hadamard, then FP4: [128] -> [68]
  void (*add)(const float* a, int64_t n, float* sum);      // sum += a
  void (*add_bf16)(const uint16_t* a, int64_t n, uint16_t* sum);
  void (*add_rows)(const float* x, const float* y, int64_t n, float* out);  // out = x + y
  // streams [4, d], mean [d]
  void (*mean_of_streams)(const uint16_t* streams, int64_t d, uint16_t* mean);
  // out [d] = bf(chain of rows [count] of d, then shared)
  void (*combine)(const uint16_t* rows, int64_t count, const uint16_t* shared, int64_t d,
                  uint16_t* out);
  void (*router_scores)(const float* logits, int64_t n, float* scores);

  // Writes rows.chains of items [first, end): the tiles of kHyperTile rows of each block.
  void (*hyper_chains)(const HyperWeights& w, const HyperRows& rows, int64_t first, int64_t end);
  // Reads the chains and writes rows [first, end) of the rest.
  void (*hyper_pre)(const HyperWeights& w, const HyperRows& rows, int64_t first, int64_t end);
  void (*hyper_post)(const uint16_t* y, const float* post, const float* comb, int64_t d,
                     uint16_t* streams);

  void (*attention)(const AttentionTask& task);
  void (*pool)(const PoolTask& task);
  void (*index_scores)(const IndexTask& task);
  // Counts the numbers of x [n] that are at least `threshold`; n < 2^31.
  int64_t (*count_at_least)(const float* x, int64_t n, float threshold);

  // Reads `bytes` once; returns a number that depends on all of them.
  int32_t (*read_memory)(const void* data, int64_t bytes, const ReadPattern& pattern);
  // Does `count` multiply-adds of fp32 in registers; returns a number that depends on them.
  float (*multiply_adds)(int64_t count);
  // Does multiply-adds as quantised products do: of fp32, or of pairs of bf16. count: a multiple of
  // 2 kMultiplyAddUnit.
  float (*operand_multiply_adds)(int64_t count);
};

}  // namespace fathom::kernels::cpu

// The tables, one per build of the kernels.
namespace fathom::kernels::avx2 {
const cpu::Kernels& Table();
}
namespace fathom::kernels::avx512 {
const cpu::Kernels& Table();
}
namespace fathom::kernels::avx512_bf16 {
const cpu::Kernels& Table();
}
namespace fathom::kernels::amx {
const cpu::Kernels& Table();
}
