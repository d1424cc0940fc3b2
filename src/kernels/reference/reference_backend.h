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
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override;

 protected:
  void Compute(const Operation& operation) override;

  // reference_backend.cc
  void Compute(const FillRopeRowsOp& op);
  static void Compute(const ChooseTokensOp& op);  // aborts

  // linear.cc
  void Compute(const LinearOp<Bf16>& op);
  void Compute(const LinearOp<float>& op);
  void Compute(const GroupedLinearOp& op);

  // norm_rope.cc
  void Compute(const EmbedOp& op);
  void Compute(const RmsNormOp& op);
  void Compute(const QueryHeadsOp& op);
  void Compute(const WindowKeysOp& op);

  // hyper_connection.cc
  void Compute(const HcPreOp& op);
  void Compute(const HcPostOp& op);
  void Compute(const HcHeadOp& op);
  void Compute(const AddToStreamsOp& op);
  void Compute(const MeanOfStreamsOp& op);
  void Compute(const AddOp& op);

  // compressor.cc
  void Compute(const CompressOp& op);

  // indexer.cc
  void Compute(const IndexQueriesOp& op);
  void Compute(const SelectRowsOp& op);
  void Compute(const BestRowsOp& op);

  // attention.cc
  void Compute(const CopyRowsOp& op);
  void Compute(const SparseAttentionOp& op);
  void Compute(const AppendWindowOp& op);

  // moe.cc
  void Compute(const SwiGluOp& op);
  void Compute(const RouteOp& op);
  void Compute(const RouteByTokenOp& op);
  void Compute(const ExpertRowsOp& op);
  void Compute(const CombineExpertsOp& op);

  FaultWord fault_;
};

}  // namespace fathom
