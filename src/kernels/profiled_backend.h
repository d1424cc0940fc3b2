// ProfiledBackend: wraps another backend and measures its operations while a profile is taken.
//
// For backends of the host, where an operation has ended when its call returns. The profiler's own
// time is left out. Bytes and operations are counted as in measure/bench/costs.h: weights once per
// call, an expert's weights if a row chooses it, cached rows once per query.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/profile.h"
#include "kernels/profile_recorder.h"

namespace fathom {

class ProfiledBackend final : public Backend {
 public:
  // `backend` must be OnHost.
  explicit ProfiledBackend(std::unique_ptr<Backend> backend);

  Result<std::unique_ptr<Profiler>> MakeProfiler() override;

  // --- Not measured ---
  std::string_view Name() const override { return backend_->Name(); }
  bool OnHost() const override { return true; }
  std::optional<std::int64_t> DeviceMemory() const override { return backend_->DeviceMemory(); }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override {
    return backend_->Allocate(bytes, kind);
  }
  Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) override {
    return backend_->Import(pieces);
  }
  Status Reserve(const StepLimits& limits) override { return backend_->Reserve(limits); }
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override {
    return backend_->MakeRooflineProbe(options);
  }
  Status Synchronize() override { return backend_->Synchronize(); }
  Ticket Mark() override { return backend_->Mark(); }
  Status Wait(Ticket ticket) override { return backend_->Wait(ticket); }
  Status PlaceExperts(const ExpertPlaces& places) override {
    return backend_->PlaceExperts(places);
  }
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override {
    return backend_->BindExperts(block, experts);
  }
  bool ChoosesTokens() const override { return backend_->ChoosesTokens(); }

  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void CopyPieces(std::span<const PieceCopy> pieces) override;
  Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) override;
  void FillRopeRows(const BatchView& batch, std::span<const float> frequencies, Matrix<float> cos,
                    Matrix<float> sin) override;
  void Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) override;
  void RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
               Matrix<Bf16> out) override;
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) override;
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) override;
  void GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                     Matrix<Bf16> out) override;
  void SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
              Matrix<Bf16> out) override;
  void HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
             Matrix<Bf16> out, HcMix mix) override;
  void HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) override;
  void HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
              Matrix<Bf16> out) override;
  void AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) override;
  void MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                     Matrix<Bf16> out) override;
  void Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) override;
  void QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps, const RopeRows& rope) override;
  void WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                  const RopeRows& rope) override;
  void Compress(const CompressorInput& input, const BatchView& batch,
                CompressorCache& cache) override;
  void IndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<std::uint8_t> out) override;
  void SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                  const BatchView& batch, const CompressorCache& cache,
                  Matrix<std::int32_t> rows) override;
  void BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                const BatchView& batch, const CompressorCache& cache,
                std::span<const RowRange> ranges, Matrix<ScoredRow> best) override;
  void CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                Matrix<std::uint8_t> out) override;
  void SparseAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                       Matrix<Bf16> out) override;
  void AppendWindow(Matrix<const Bf16> keys, const BatchView& batch, WindowCache& cache) override;
  void Route(Matrix<const float> logits, std::span<const float> bias, float scale,
             const Routing& out) override;
  void RouteByToken(const BatchView& batch, Matrix<const float> logits,
                    Matrix<const std::int64_t> table, float scale, const Routing& out) override;
  void ExpertRows(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                  float clamp, Matrix<Bf16> rows) override;
  void CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                      Matrix<Bf16> out) override;
  void ChooseTokens(Matrix<const float> logits, std::span<const SamplingRow> rows,
                    std::span<TokenChoice> choices) override;

 private:
  class HostProfiler;
  using Clock = std::chrono::steady_clock;

  struct Piece;  // a piece of work: its name and cost
  class Timer;

  std::unique_ptr<Backend> backend_;
  bool is_on_ = false;
  ProfileRecorder recorder_;
  Clock::time_point free_since_;  // end of the profiler's own work for the piece before
};

}  // namespace fathom
