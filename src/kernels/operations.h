// The operations of V4, as values: their operands, shapes and meaning.
//
// Backend has a function for each, which makes the value and runs it. What concerns all operations
// takes an Operation: the checks of shapes, names and costs (operations.cc), a profile, a test's
// backend.
//
//   shapes     t is the number of rows (tokens) of the call and may be 0; shapes are given as
//              [rows, cols] and checked before an operation runs; outputs do not alias inputs
//              unless "in place" is said.
//   memory     Matrices, vectors, caches and weights are in memory of the backend (memory.h) or
//              the address that Import returned; the host neither reads nor writes there. A
//              BatchView, and spans of ranges and rows, are in memory of the host.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/profile.h"
#include "kernels/row_choice.h"
#include "kernels/weight_format.h"
#include "sampling/sampling_row.h"

namespace fathom::kernels {

// Gates of a token: pre [4], post [4] and comb [16].
inline constexpr int kHcGates = 2 * kStreams + kStreams * kStreams;

// The gates that HcPre computes for HcPost: [t, 4] and [t, 16], comb[4 i + j] from source stream i
// to stream j.
struct HcMix {
  Matrix<float> post;
  Matrix<float> comb;
};

struct HcOptions {
  std::int64_t sinkhorn_iterations = 20;
  float eps = 1e-6f;
  float norm_eps = 1e-6f;
};

struct CompressorInput {
  Matrix<const float> values;  // u * wkv [t, overlap * width]
  Matrix<float> scores;        // u * wgate [t, overlap * width]; Compress adds ape in place
  const float* ape = nullptr;  // [ratio, overlap * width]
  std::span<const Bf16> norm;  // [width]
  float norm_eps = 1e-6f;
  std::span<const float> frequencies;  // frequencies of the layer's RoPE: [rope_dims / 2]
};

struct AttentionInput {
  Matrix<const Bf16> q;  // [t, heads * head_dim], from QueryHeads
  // From WindowKeys: the batch's own keys [t, head_dim]; with BatchView::Rows the keys of all its
  // rows.
  Matrix<const Bf16> keys;
  Matrix<const std::int32_t> selected;  // [t, index_topk] from SelectRows; empty: all visible rows
  // Without columns: `selected` are rows of the cache. Otherwise they are rows of this matrix [n,
  // KeyBytes], which has the compressed rows of all ranks.
  Matrix<const std::uint8_t> gathered;
  std::span<const float> sinks;  // [heads]
  std::int64_t sliding_window = 0;
  RopeRows rope;
  // Set for a block of drafts (docs/spec/mtp.md 2.5): every row sees the sliding_window positions
  // before its segment, and all rows of the segment. Layers of ratio 0.
  bool sees_whole_segment = false;
};

struct Routing {
  Matrix<std::int32_t> ids;  // [t, experts per token], ascending in every row
  Matrix<float> weights;     // [t, experts per token]
};

// The routed experts of a block, prepared by Backend::BindExperts.
struct ExpertSet {
  std::int64_t block = 0;
  std::span<const ExpertWeights> experts;  // by id
  bool is_uniform = false;                 // all experts have one shape and one format
};

// --- Steps ---

// Fills cos and sin [t, frequencies] of position * frequency for every token of the batch (rope.h).
struct FillRopeRowsOp {
  BatchView batch;
  std::span<const float> frequencies;
  Matrix<float> cos;
  Matrix<float> sin;
};

// --- Dense ---

// table [vocab, d]; out [t, c * d]: the row of each token, c times.
struct EmbedOp {
  BatchView batch;
  Matrix<const Bf16> table;
  Matrix<Bf16> out;
};

// x, out [t, d]; weight [d]. out may be x.
struct RmsNormOp {
  Matrix<const Bf16> x;
  std::span<const Bf16> weight;
  float eps = 0;
  Matrix<Bf16> out;
};

// x [t, k]; out [t, n]. FP8 and FP4 weights: x is quantised to E4M3 per 128 columns first.
template <class Out>
struct LinearOp {
  Matrix<const Bf16> x;
  Weight w;
  Matrix<Out> out;
};

// x [t, groups * k]; w [groups * r, k], BF16 or FP8; out [t, groups * r]: group g of x times rows
// g * r ... of w. x is not quantised; FP8 weights are bf16(e4m3 * scale).
struct GroupedLinearOp {
  Matrix<const Bf16> x;
  Weight w;
  std::int64_t groups = 0;
  Matrix<Bf16> out;
};

// gate, up, out [t, f]: silu(min(gate, clamp)) * clamp(up). out may be gate or up.
struct SwiGluOp {
  Matrix<const Bf16> gate;
  Matrix<const Bf16> up;
  float clamp = 0;
  Matrix<Bf16> out;
};

// --- Hyper-connections: streams [t, 4 * d] ---

// out [t, d]: the input of a sub-layer, mixed from the streams.
struct HcPreOp {
  Matrix<const Bf16> streams;
  HcWeights w;
  HcOptions options;
  Matrix<Bf16> out;
  HcMix mix;
};

// streams (in place) = post * y + comb^T * streams; y [t, d].
struct HcPostOp {
  Matrix<const Bf16> y;
  HcMix mix;
  Matrix<Bf16> streams;
};

// out [t, d]: the input of the head, mixed from the streams.
struct HcHeadOp {
  Matrix<const Bf16> streams;
  HcWeights w;
  HcOptions options;
  Matrix<Bf16> out;
};

// Drafts: streams[t][s] = bf16(streams[t][s] + x[t]), in place; x [t, d].
struct AddToStreamsOp {
  Matrix<const Bf16> x;
  Matrix<Bf16> streams;
};

// Drafts: out[t][first_column + i] = bf16((((s0 + s1) + s2) + s3) / 4), where s0 to s3 are number i
// of the streams of t; out [t, at least first_column + d].
struct MeanOfStreamsOp {
  Matrix<const Bf16> streams;
  std::int64_t first_column = 0;
  Matrix<Bf16> out;
};

// out = x + y, all [t, n]. out may be x or y.
struct AddOp {
  Matrix<const float> x;
  Matrix<const float> y;
  Matrix<float> out;
};

// --- Attention ---

// q [t, heads * head_dim], in place: unweighted norm of every head (rounded to bf16 at every step,
// docs/spec/model.md 5.2), then RoPE on its last rope_dims.
struct QueryHeadsOp {
  Matrix<Bf16> q;
  std::int64_t head_dim = 0;
  float eps = 0;
  RopeRows rope;
};

// kv [t, head_dim], in place: RMS norm, RoPE, then FP8 simulation of all but the RoPE dimensions.
struct WindowKeysOp {
  Matrix<Bf16> kv;
  std::span<const Bf16> norm;
  float eps = 0;
  RopeRows rope;
};

// Adds the rows that the batch's tokens complete, if they belong to the cache's share, then stores
// the tokens' inputs in the tail. The cache determines width and kind of the rows (FP8-simulated or
// rotated FP4).
struct CompressOp {
  CompressorInput input;
  BatchView batch;
  CompressorCache cache;
};

// q [t, index_heads * 128]: RoPE, Hadamard rotation, FP4; out [t, index_heads * 68] packed.
struct IndexQueriesOp {
  Matrix<const Bf16> q;
  RopeRows rope;
  Matrix<std::uint8_t> out;
};

// queries from IndexQueries; head_weights [t, index_heads], not yet scaled; rows
// [t, index_topk]: the chosen rows of cache, best first (all visible rows ascending, if they fit;
// the queries of such tokens are not read), then -1. Where not all fit, the cache has all.
struct SelectRowsOp {
  Matrix<const std::uint8_t> queries;
  Matrix<const Bf16> head_weights;
  BatchView batch;
  CompressorCache cache;
  Matrix<std::int32_t> rows;
};

// Scores for token i only the rows in places ranges[i] of the cache's share, [t]; if there are no
// rows, the queries are not read. best [t, index_topk]: the best of these rows, or all, best first,
// then kNoScoredRow.
struct BestRowsOp {
  Matrix<const std::uint8_t> queries;
  Matrix<const Bf16> head_weights;
  BatchView batch;
  CompressorCache cache;
  std::span<const RowRange> ranges;
  Matrix<ScoredRow> best;
};

// out [n, KeyBytes]: rows that the cache of a main compressor has, unchanged.
struct CopyRowsOp {
  std::span<const SequenceRow> rows;
  CompressorCache cache;
  Matrix<std::uint8_t> out;
};

// out [t, heads * head_dim]: attention over the window and the compressed rows with a sink, rotated
// back by the query's position (docs/numerics.md 7). Reads keys before the batch from the cache;
// writes nothing to it.
struct SparseAttentionOp {
  AttentionInput input;
  BatchView batch;
  LayerCache cache;
  Matrix<Bf16> out;
};

// Stores the batch's own keys [t, head_dim] in the window.
struct AppendWindowOp {
  Matrix<const Bf16> keys;
  BatchView batch;
  WindowCache cache;
};

// --- Mixture of experts ---

// logits [t, experts] (u * gate); bias [experts], for the choice only.
struct RouteOp {
  Matrix<const float> logits;
  std::span<const float> bias;
  float scale = 0;
  Routing out;
};

// table [vocab, experts per token]: the experts of each token id.
struct RouteByTokenOp {
  BatchView batch;
  Matrix<const float> logits;
  Matrix<const std::int64_t> table;
  float scale = 0;
  Routing out;
};

// x [t, d]; rows [t * k, d]: the output of the j-th chosen expert of token i in row i * k + j,
// routing weight applied before w2. An id of kRemoteExpert leaves its row unchanged: another rank
// has the expert.
struct ExpertRowsOp {
  Matrix<const Bf16> x;
  Routing routing;
  ExpertSet experts;
  float clamp = 0;
  Matrix<Bf16> rows;
};

// out [t, d] = bf16(sum of the token's rows in order + shared); shared [t, d]. out may be shared.
struct CombineExpertsOp {
  Matrix<const Bf16> rows;
  Matrix<const Bf16> shared;
  Matrix<Bf16> out;
};

// --- Sampling ---

// logits [n, vocabulary], n at most StepLimits::max_logit_rows; choices [n], in memory of the host,
// which the call fills as Download would: the token of each row (docs/numerics.md 9). Invalid
// contents of a row are no fault of the step: the choice of the row reports them.
struct ChooseTokensOp {
  Matrix<const float> logits;
  std::span<const SamplingRow> rows;
  std::span<TokenChoice> choices;
};

using Operation =
    std::variant<FillRopeRowsOp, EmbedOp, RmsNormOp, LinearOp<Bf16>, LinearOp<float>,
                 GroupedLinearOp, SwiGluOp, HcPreOp, HcPostOp, HcHeadOp, AddToStreamsOp,
                 MeanOfStreamsOp, AddOp, QueryHeadsOp, WindowKeysOp, CompressOp, IndexQueriesOp,
                 SelectRowsOp, BestRowsOp, CopyRowsOp, SparseAttentionOp, AppendWindowOp, RouteOp,
                 RouteByTokenOp, ExpertRowsOp, CombineExpertsOp, ChooseTokensOp>;

// Aborts with the name of the operation if its shapes are not as said above.
void CheckShapes(const Operation& operation);
// Aborts if k cannot be divided as the format and k_parts need.
void CheckWeight(const Weight& w);

// The name and the cost of an operation, from its operands alone.
struct OperationWork {
  // "RmsNorm"; products with format and shape of the weight in the checkpoint's order: "Linear FP8
  // [n, k]".
  std::string name;
  // Weights count once per call, an expert's if a row chooses it, and cached rows once per query.
  WorkCost cost{};
};

// Reads the ids of Routing, and no other memory of the backend.
OperationWork Describe(const Operation& operation);

// Calls part.Compute(op) if the class has this function for the operation. Returns false if not.
template <class Part>
bool ComputeBy(Part part, const Operation& operation) {
  return std::visit(
      [&](const auto& op) {
        constexpr bool kComputes = requires { part.Compute(op); };
        if constexpr (kComputes) part.Compute(op);
        return kComputes;
      },
      operation);
}

}  // namespace fathom::kernels
