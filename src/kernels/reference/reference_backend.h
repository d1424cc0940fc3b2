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

namespace fathom::kernels {

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

  FaultWord fault_;

 private:
  // The operations of one source file each, and what computes an operation if the file has it.
  struct LinearOperations;
  struct NormOperations;
  struct HyperOperations;
  struct AttentionOperations;
  struct CompressorOperations;
  struct IndexerOperations;
  struct ExpertOperations;
  struct TokenOperations;
  bool ComputeLinear(const Operation& operation);
  bool ComputeNorm(const Operation& operation);
  bool ComputeHyper(const Operation& operation);
  bool ComputeAttention(const Operation& operation);
  bool ComputeCompressor(const Operation& operation);
  bool ComputeIndexer(const Operation& operation);
  bool ComputeExpert(const Operation& operation);
  bool ComputeTokens(const Operation& operation);
};

}  // namespace fathom::kernels
