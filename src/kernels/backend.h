// Backend: the interface between the model and the hardware.
//
// The operations of V4, in V4's terms. The reference backend (kernels/reference) is the executable
// specification: every other backend must give the same numbers, on the CPU the same bits
// (docs/numerics.md fixes every sum and every rounding).
//
// Contract of every operation
//   shapes     t is the number of rows (tokens) of the call and may be 0; shapes are given as
//              [rows, cols] and checked on entry; outputs do not alias inputs unless "in place" is
//              said.
//   memory     Matrices, vectors, caches and weights are in memory of the backend (memory.h) or at
//              the addresses of Import; the host neither reads nor writes there. BatchView, and
//              spans of ranges, rows and pieces, are in memory of the host. The views of a batch
//              are the views passed to BeginStep, or their Rows; other host arguments are read
//              before the call returns. Nothing is allocated.
//   order      Operations run in the order of the calls, possibly later than the calls. The
//              host sees their results, in shared memory and by Download, after Synchronize or
//              Wait.
//   errors     A wrong shape is a broken invariant and aborts. Wrong contents (a selected row that
//              the token does not see, an unknown expert) set the fault word (fault.h), which
//              Synchronize and Wait return as kInvalidData; results since then are invalid.
//   threads    One at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/float_types.h"
#include "base/result.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/memory.h"
#include "kernels/row_choice.h"
#include "kernels/weight_format.h"
#include "sampling/sampling_row.h"

namespace fathom {

// The largest call that a backend will see. The backend sizes its scratch memory for it, once.
struct StepLimits {
  std::int64_t max_tokens = 0;         // rows of any call, before the factors below
  std::int64_t max_linear_inputs = 0;  // widest k of any Weight
  std::int64_t hidden = 0;
  std::int64_t head_dim = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t n_experts = 0;
  std::int64_t moe_intermediate = 0;
  std::int64_t sliding_window = 0;
  std::int64_t max_compressed_rows = 0;  // most rows any compressor of one sequence will hold
  std::int64_t max_block = 0;            // rows of a segment with sees_whole_segment
  std::int64_t max_logit_rows = 0;       // rows of one call of ChooseTokens
  std::int64_t vocabulary = 0;
};

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

// The places of the routed experts that BindExperts finds in host memory, and the processor of the
// experts that are not copied to the device's own memory.
struct ExpertPlaces {
  // By block: the number of experts, lowest ids first, that are copied to kDevice memory.
  std::vector<std::int64_t> on_device;
  // For the other experts: true: the host computes them in place. false: they are copied to kShared
  // memory, which the device reads.
  bool host_computes = false;
};

class Profiler;
class RooflineProbe;
struct RooflineOptions;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view Name() const = 0;

  // --- Memory ---
  // Returns true if the host can access all memory of the backend, kDevice included.
  virtual bool OnHost() const = 0;
  // Returns the bytes of kDevice memory that were free when the backend was made, for a device with
  // memory of its own whose use is planned (model/memory_plan.h).
  virtual std::optional<std::int64_t> DeviceMemory() const { return std::nullopt; }
  // Returns true if Import and BindExperts return the addresses that they are given.
  virtual bool ReadsWeightsInPlace() const { return OnHost(); }
  // Allocates `bytes` (>= 0). Error: kOutOfMemory.
  virtual Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) = 0;
  // Returns the address at which the backend reads each of these pieces of the checkpoint, which
  // stay where they are: the same addresses if the backend uses them in place. One call takes less
  // memory than many. Error: kOutOfMemory.
  virtual Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) = 0;
  // Makes room for steps of these sizes. Error: kOutOfMemory.
  virtual Status Reserve(const StepLimits& limits) = 0;
  // Makes a probe of the hardware that the operations run on, in the way they use it (roofline.h).
  // The backend must outlive the probe; no operation may run while the probe measures. Errors:
  // kOutOfMemory; errors of the device.
  virtual Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const = 0;
  // Makes a profiler of the operations (profile.h), which the backend must outlive; one at a time.
  // Error: kUnsupported where the backend was not made for it (BackendOptions::can_profile).
  virtual Result<std::unique_ptr<Profiler>> MakeProfiler();

  // Copies to the memory of the backend. `from` is read before the call returns.
  virtual void Upload(void* to, std::span<const std::byte> from) = 0;
  // Copies to the memory of the host.
  virtual void Download(std::span<std::byte> to, const void* from) = 0;
  // Copies within the memory of the backend. No piece overwrites memory that another piece reads.
  virtual void CopyPieces(std::span<const PieceCopy> pieces) = 0;

  // Waits until all operations have ended. Error: a fault, or a lost device.
  virtual Status Synchronize() = 0;
  // Wait(Mark()) is Synchronize, but ignores operations that were called after Mark.
  virtual Ticket Mark() = 0;
  virtual Status Wait(Ticket ticket) = 0;

  // --- Steps ---
  // Uploads the host data that the operations of a step read, in one transfer: the batch, and the
  // entries of block tables that have changed since the step before. The batch must not change
  // until the next call.
  virtual Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) = 0;
  // Fills cos, sin [t, frequencies] of position * frequency for every token of the batch (rope.h).
  virtual void FillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                            Matrix<float> cos, Matrix<float> sin) = 0;

  // --- Dense ---
  // table [vocab, d]; out [t, c * d]: the row of each token, c times.
  virtual void Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) = 0;
  // x, out [t, d]; weight [d]. out may be x.
  virtual void RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                       Matrix<Bf16> out) = 0;
  // x [t, k]; out [t, n]. FP8 and FP4 weights: x is quantised to E4M3 per 128 columns first.
  virtual void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) = 0;
  virtual void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) = 0;
  // x [t, groups * k]; w [groups * r, k], BF16 or FP8; out [t, groups * r]: group g of x times rows
  // g * r ... of w. x is not quantised; FP8 weights are bf16(e4m3 * scale).
  virtual void GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                             Matrix<Bf16> out) = 0;
  // gate, up, out [t, f]: silu(min(gate, clamp)) * clamp(up). out may be gate or up.
  virtual void SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                      Matrix<Bf16> out) = 0;

  // --- Hyper-connections: streams [t, 4 * d] ---
  virtual void HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                     Matrix<Bf16> out, HcMix mix) = 0;  // out [t, d]
  // streams (in place) = post * y + comb^T * streams; y [t, d].
  virtual void HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) = 0;
  virtual void HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                      Matrix<Bf16> out) = 0;  // out [t, d]
  // Drafts: streams[t][s] = bf16(streams[t][s] + x[t]), in place; x [t, d].
  virtual void AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) = 0;
  // Drafts: out[t][first_column + i] = bf16((((s0 + s1) + s2) + s3) / 4), where s0 to s3 are number
  // i of the streams of t; out [t, at least first_column + d].
  virtual void MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                             Matrix<Bf16> out) = 0;
  // out = x + y, all [t, n]. out may be x or y.
  virtual void Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) = 0;

  // --- Attention ---
  // q [t, heads * head_dim], in place: unweighted norm of every head (rounded to bf16 at every
  // step, docs/spec/model.md 5.2), then RoPE on its last rope_dims.
  virtual void QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                          const RopeRows& rope) = 0;
  // kv [t, head_dim], in place: RMS norm, RoPE, then FP8 simulation of all but the RoPE dimensions.
  virtual void WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                          const RopeRows& rope) = 0;
  // Adds the rows that the batch's tokens complete, if they belong to the cache's share, then
  // stores the tokens' inputs in the tail. The cache determines width and kind of the rows
  // (FP8-simulated or rotated FP4).
  virtual void Compress(const CompressorInput& input, const BatchView& batch,
                        CompressorCache& cache) = 0;
  // q [t, index_heads * 128]: RoPE, Hadamard rotation, FP4; out [t, index_heads * 68] packed.
  virtual void IndexQueries(Matrix<const Bf16> q, const RopeRows& rope,
                            Matrix<std::uint8_t> out) = 0;
  // queries as above; head_weights [t, index_heads] (u * weights_proj, not yet scaled);
  // rows [t, index_topk]: the chosen rows of cache, best first (all visible rows ascending, if they
  // fit; the queries of such tokens are not read), then -1. Where not all fit, the cache has all.
  virtual void SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                          const BatchView& batch, const CompressorCache& cache,
                          Matrix<std::int32_t> rows) = 0;
  // Scores for token i only the rows in places ranges[i] of the cache's share, [t]; if there are no
  // rows, the queries are not read. best [t, index_topk]: the best of these rows, or all, best
  // first, then kNoScoredRow.
  virtual void BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                        const BatchView& batch, const CompressorCache& cache,
                        std::span<const RowRange> ranges, Matrix<ScoredRow> best) = 0;
  // out [n, KeyBytes]: rows that the cache of a main compressor has, unchanged.
  virtual void CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                        Matrix<std::uint8_t> out) = 0;
  // out [t, heads * head_dim]: attention over the window and the compressed rows with a sink,
  // rotated back by the query's position (docs/numerics.md 7). Reads keys before the batch from the
  // cache; writes nothing to it.
  virtual void SparseAttention(const AttentionInput& input, const BatchView& batch,
                               const LayerCache& cache, Matrix<Bf16> out) = 0;
  // Stores the batch's own keys [t, head_dim] in the window.
  virtual void AppendWindow(Matrix<const Bf16> keys, const BatchView& batch,
                            WindowCache& cache) = 0;

  // --- Mixture of experts ---
  // logits [t, experts] (u * gate); bias [experts], for the choice only.
  virtual void Route(Matrix<const float> logits, std::span<const float> bias, float scale,
                     const Routing& out) = 0;
  // table [vocab, experts per token]: the experts of each token id.
  virtual void RouteByToken(const BatchView& batch, Matrix<const float> logits,
                            Matrix<const std::int64_t> table, float scale, const Routing& out) = 0;
  // Sets the destination of experts for later calls of BindExperts; without a call they are all
  // copied to kDevice memory. Called before Reserve. A backend of the host uses weights in place.
  // Errors: the backend that computes experts on the host cannot be created.
  virtual Status PlaceExperts(const ExpertPlaces& /*places*/) { return {}; }
  // Prepares the experts of a block, by id, for ExpertRows. The weights must stay in place as long
  // as the result is used; remote experts have no data. Bind again after the weights change.
  virtual ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) = 0;
  // x [t, d]; rows [t * k, d]: the output of the j-th chosen expert of token i in row i * k + j,
  // routing weight applied before w2. An id of kRemoteExpert leaves its row unchanged: another rank
  // has the expert.
  virtual void ExpertRows(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                          float clamp, Matrix<Bf16> rows) = 0;
  // out [t, d] = bf16(sum of the token's rows in order + shared); shared [t, d]. out may be shared.
  virtual void CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                              Matrix<Bf16> out) = 0;

  // --- Sampling ---
  // Returns true if ChooseTokens may be called; if not, the host chooses from logits.
  virtual bool ChoosesTokens() const { return false; }
  // logits [n, vocabulary], n at most StepLimits::max_logit_rows; choices [n], in memory of the
  // host, which the call fills as Download would: the token of each row (docs/numerics.md 9).
  // Invalid contents of a row are no fault of the step: the choice of the row reports them.
  virtual void ChooseTokens(Matrix<const float> /*logits*/, std::span<const SamplingRow> /*rows*/,
                            std::span<TokenChoice> /*choices*/) {
    Check(false, "ChooseTokens of a backend that does not choose tokens");
  }
};

}  // namespace fathom
