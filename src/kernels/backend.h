// Backend: the interface between the model and the hardware.
//
// The operations of V4, in V4's terms. The reference backend (kernels/reference) is the executable
// specification: every other backend must give the same numbers, on the CPU the same bits
// (docs/numerics.md fixes every sum and every rounding).
//
// Contract of every operation
//   operands   operations.h says what they are. The views of a batch are the views passed to
//              BeginStep, or their Rows; other operands in memory of the host are read before the
//              call returns. Nothing is allocated.
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

#include "base/result.h"
#include "kernels/memory.h"
#include "kernels/operations.h"

namespace fathom::kernels {

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
  std::int64_t attention_heads = 0;
  std::int64_t max_attended_rows = 0;  // most compressed rows that a query attends to
  std::int64_t max_block = 0;          // rows of a segment with sees_whole_segment
  std::int64_t max_logit_rows = 0;     // rows of one call of ChooseTokens
  std::int64_t vocabulary = 0;
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

  // --- Experts ---
  // Sets the destination of experts for later calls of BindExperts; without a call they are all
  // copied to kDevice memory. Called before Reserve. A backend of the host uses weights in place.
  // Errors: the backend that computes experts on the host cannot be created.
  virtual Status PlaceExperts(const ExpertPlaces& /*places*/) { return {}; }
  // Prepares the experts of a block, by id, for ExpertRows. The weights must stay in place as long
  // as the result is used; remote experts have no data. Bind again after the weights change.
  virtual ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) = 0;

  // --- Operations: operations.h says what each does ---
  // Runs an operation. The functions below are the same, for its operands.
  void Run(const Operation& operation) {
    CheckShapes(operation);
    Compute(operation);
  }

  void FillRopeRows(const BatchView& batch, std::span<const float> frequencies, Matrix<float> cos,
                    Matrix<float> sin) {
    Run(FillRopeRowsOp{batch, frequencies, cos, sin});
  }

  // Dense
  void Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
    Run(EmbedOp{batch, table, out});
  }
  void RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps, Matrix<Bf16> out) {
    Run(RmsNormOp{x, weight, eps, out});
  }
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) {
    Run(LinearOp<Bf16>{x, w, out});
  }
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) {
    Run(LinearOp<float>{x, w, out});
  }
  void GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups, Matrix<Bf16> out) {
    Run(GroupedLinearOp{x, w, groups, out});
  }
  void SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp, Matrix<Bf16> out) {
    Run(SwiGluOp{gate, up, clamp, out});
  }

  // Hyper-connections
  void HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
             Matrix<Bf16> out, HcMix mix) {
    Run(HcPreOp{streams, w, options, out, mix});
  }
  void HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) {
    Run(HcPostOp{y, mix, streams});
  }
  void HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
              Matrix<Bf16> out) {
    Run(HcHeadOp{streams, w, options, out});
  }
  void AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) { Run(AddToStreamsOp{x, streams}); }
  void MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column, Matrix<Bf16> out) {
    Run(MeanOfStreamsOp{streams, first_column, out});
  }
  void Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) {
    Run(AddOp{x, y, out});
  }

  // Attention
  void QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps, const RopeRows& rope) {
    Run(QueryHeadsOp{q, head_dim, eps, rope});
  }
  void WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps, const RopeRows& rope) {
    Run(WindowKeysOp{kv, norm, eps, rope});
  }
  void Compress(const CompressorInput& input, const BatchView& batch,
                const CompressorCache& cache) {
    Run(CompressOp{input, batch, cache});
  }
  void IndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<std::uint8_t> out) {
    Run(IndexQueriesOp{q, rope, out});
  }
  void SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                  const BatchView& batch, const CompressorCache& cache, Matrix<std::int32_t> rows) {
    Run(SelectRowsOp{queries, head_weights, batch, cache, rows});
  }
  void BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                const BatchView& batch, const CompressorCache& cache,
                std::span<const RowRange> ranges, Matrix<ScoredRow> best) {
    Run(BestRowsOp{queries, head_weights, batch, cache, ranges, best});
  }
  void CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                Matrix<std::uint8_t> out) {
    Run(CopyRowsOp{rows, cache, out});
  }
  void SparseAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                       Matrix<Bf16> out) {
    Run(SparseAttentionOp{input, batch, cache, out});
  }
  void AppendWindow(Matrix<const Bf16> keys, const BatchView& batch, const WindowCache& cache) {
    Run(AppendWindowOp{keys, batch, cache});
  }

  // Mixture of experts
  void Route(Matrix<const float> logits, std::span<const float> bias, float scale,
             const Routing& out) {
    Run(RouteOp{logits, bias, scale, out});
  }
  void RouteByToken(const BatchView& batch, Matrix<const float> logits,
                    Matrix<const std::int64_t> table, float scale, const Routing& out) {
    Run(RouteByTokenOp{batch, logits, table, scale, out});
  }
  void ExpertRows(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                  float clamp, Matrix<Bf16> rows) {
    Run(ExpertRowsOp{x, routing, experts, clamp, rows});
  }
  void CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared, Matrix<Bf16> out) {
    Run(CombineExpertsOp{rows, shared, out});
  }

  void ChooseTokens(Matrix<const float> logits, std::span<const SamplingRow> rows,
                    std::span<TokenChoice> choices) {
    Run(ChooseTokensOp{logits, rows, choices});
  }

 protected:
  // Runs an operation whose operands have the right shapes.
  virtual void Compute(const Operation& operation) = 0;
};

}  // namespace fathom::kernels
