// CpuBackend: the reference backend with vector kernels and threads for most operations, and with
// equal bits (docs/numerics.md; tests/kernels/conformance.h).
//
// The kernels (kernels.h) are built once per instruction set; this class, built for the baseline,
// checks shapes, divides the work among the threads and lays out scratch memory. Shapes without a
// kernel (a head dimension that 32 does not divide, experts of mixed formats) and operations
// without one go to the reference implementation, which is slow, single-threaded and may allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_team.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/reference_backend.h"
#include "sampling/token_chooser.h"

namespace fathom::kernels {

// Work of an elementwise operation per number, in multiply-adds of a product.
inline constexpr std::int64_t kElementWork = 8;
inline constexpr std::int64_t kActivationWork = 64;

// Owns its threads and scratch memory. Call Reserve before any operation; a call beyond the
// reserved limits is a broken invariant and aborts.
class CpuBackend final : public ReferenceBackend {
 public:
  // isa: any but kScalar, present on this machine (registry.h checks); processors: see ThreadTeam.
  CpuBackend(Isa isa, int n_threads, std::span<const int> processors = {});
  std::string_view Name() const override { return name_; }
  Status Reserve(const StepLimits& limits) override;
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override;

 private:
  void Compute(const Operation& operation) override;

  // The operations of one source file each, and what computes an operation if the file has it.
  struct RowOperations;
  struct LinearOperations;
  struct AttentionOperations;
  struct IndexerOperations;
  struct ExpertOperations;
  bool ComputeRow(const Operation& operation);
  bool ComputeLinear(const Operation& operation);
  bool ComputeAttention(const Operation& operation);
  bool ComputeIndexer(const Operation& operation);
  bool ComputeExpert(const Operation& operation);

  // Calls body(first, end) on ranges of [0, count). `work` is the cost of one item, in
  // multiply-adds; small calls run on the calling thread.
  template <class Body>
  void ForItems(std::int64_t count, std::int64_t work, const Body& body) {
    const std::int64_t grain = (kShareWork + work - 1) / (work > 0 ? work : 1);
    team_.For(count, grain > 0 ? grain : 1, body);
  }

  // Calls body(item) for [0, count) in this way.
  template <class Body>
  void ForEach(std::int64_t count, std::int64_t work, const Body& body) {
    ForItems(count, work, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t item = first; item < end; ++item) body(item);
    });
  }

  // Returns how many prepared rows of k numbers are processed together; at least 1.
  std::int64_t TileRows(std::int64_t k) const;
  // Returns the least work of a piece of products that take `work` together.
  std::int64_t PieceWork(std::span<const cpu::Product> products, std::int64_t work) const;
  // Runs the products as one loop over all their output columns.
  void Multiply(std::span<const cpu::Product> products);
  // Prepares rows of x (k numbers each, x_stride apart) for products of this format, except rows
  // whose `ids` are all kRemoteExpert (ids [count, any]; empty: all rows).
  void Prepare(cpu::ProductFormat format, const Bf16* x, std::int64_t x_stride, std::int64_t count,
               std::int64_t k, float* out, float* scales, Matrix<const std::int32_t> ids = {});
  // Least work for which waking a thread pays: five to ten microseconds, several times the cost of
  // waking.
  static constexpr std::int64_t kShareWork = 256 * 1024;

  const Isa isa_;
  const cpu::Kernels& kernels_;
  const std::vector<int> processors_;  // processors of the threads; empty: not bound
  ThreadTeam team_;
  std::string name_;
  Scratch scratch_;
  std::vector<TokenChooser> choosers_;  // one per thread
  // Kernels::workspace_bytes per thread, or null. They replace memory on the threads' stacks and,
  // like the stacks, are not part of the planned memory.
  std::unique_ptr<Buffer> workspaces_;
};

// Kernels see bf16 numbers as uint16_t.
inline const std::uint16_t* Bits(const Bf16* x) {
  return reinterpret_cast<const std::uint16_t*>(x);
}
inline std::uint16_t* Bits(Bf16* x) { return reinterpret_cast<std::uint16_t*>(x); }

inline cpu::RotaryRow RotaryRowAt(const RopeRows& rope, std::int64_t row) {
  return {rope.cos.Row(row), rope.sin.Row(row), rope.cos.cols};
}

// Describes the product of w with prepared rows; the caller sets x, t and the output. quantize:
// true if FP8 weights take quantised activations.
cpu::Product MakeProduct(const Weight& w, bool quantize);

}  // namespace fathom::kernels
