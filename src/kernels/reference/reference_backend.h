// ReferenceBackend: every operation as plain scalar loops, the executable form of docs/numerics.md.
//
// The reference is the specification, not an engine: one thread, no instruction set beyond the
// baseline, and, unlike other backends, it may allocate inside an operation. Other backends are
// tested against it; the CPU backend inherits from it and overrides the operations that have vector
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/fault.h"

namespace fathom {

// Contracts of the operations: kernels/backend.h.
class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend() = default;
  std::string_view Name() const override { return "reference"; }

  // Memory is host memory; weights are read in place. An operation runs when it is called.
  bool OnHost() const override { return true; }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override;
  Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) override;
  Status Reserve(const StepLimits& limits) override;
  // Measures on one thread.
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override;
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void CopyPieces(std::span<const PieceCopy> pieces) override;
  Status Synchronize() override { return fault_.Take(); }
  Ticket Mark() override { return {}; }
  Status Wait(Ticket) override { return fault_.Take(); }
  Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) override;
  void FillRopeRows(const BatchView& batch, std::span<const float> frequencies, Matrix<float> cos,
                    Matrix<float> sin) override;

  // linear.cc
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) override;
  void Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) override;
  void GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                     Matrix<Bf16> out) override;

  // norm_rope.cc
  void Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) override;
  void RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
               Matrix<Bf16> out) override;
  void QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps, const RopeRows& rope) override;
  void WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                  const RopeRows& rope) override;

  // hyper_connection.cc
  void HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
             Matrix<Bf16> out, HcMix mix) override;
  void HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) override;
  void HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
              Matrix<Bf16> out) override;
  void AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) override;
  void MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                     Matrix<Bf16> out) override;
  void Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) override;

  // compressor.cc
  void Compress(const CompressorInput& input, const BatchView& batch,
                CompressorCache& cache) override;

  // indexer.cc
  void IndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<std::uint8_t> out) override;
  void SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                  const BatchView& batch, const CompressorCache& cache,
                  Matrix<std::int32_t> rows) override;
  void BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                const BatchView& batch, const CompressorCache& cache,
                std::span<const RowRange> ranges, Matrix<ScoredRow> best) override;

  // attention.cc
  void CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                Matrix<std::uint8_t> out) override;
  void SparseAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                       Matrix<Bf16> out) override;
  void AppendWindow(Matrix<const Bf16> keys, const BatchView& batch, WindowCache& cache) override;

  // moe.cc
  void SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
              Matrix<Bf16> out) override;
  void Route(Matrix<const float> logits, std::span<const float> bias, float scale,
             const Routing& out) override;
  void RouteByToken(const BatchView& batch, Matrix<const float> logits,
                    Matrix<const std::int64_t> table, float scale, const Routing& out) override;
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override;
  void ExpertRows(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                  float clamp, Matrix<Bf16> rows) override;
  void CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                      Matrix<Bf16> out) override;

 protected:
  FaultWord fault_;
};

}  // namespace fathom
