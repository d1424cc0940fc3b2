// GpuBackend: the operations on a GPU, equal to the CPU's bit for bit (docs/numerics.md).
//
// One backend for all devices: kernels of kernels/gpu/device, run by a GpuDriver. The fault word is
// in memory of the device and is read with each ticket. Results for the host are copied through
// pinned memory, so that only Synchronize and Wait wait. Operations allocate nothing; only Reserve
// does. The embedding and the routed experts may be in memory of the host: rows of the embedding
// are uploaded with each step, BindExperts copies experts to the memory that PlaceExperts selects.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/integer_math.h"
#include "kernels/backend.h"
#include "kernels/fault.h"
#include "kernels/gpu/device/lane_rows.h"
#include "kernels/gpu/device_sampler.h"
#include "kernels/gpu/driver.h"
#include "kernels/gpu/host_experts.h"
#include "kernels/gpu/limits.h"
#include "kernels/gpu/memory_ledger.h"
#include "kernels/gpu/memory_sizes.h"
#include "kernels/gpu/pinned_results.h"
#include "kernels/gpu/profiled_driver.h"
#include "kernels/gpu/step_batch.h"

namespace fathom::kernels {

// Contracts of the operations: kernels/backend.h.
class GpuBackend final : public Backend {
 public:
  // Makes the backend that computes experts on the host. Called once, if there are any.
  using MakeHostBackend = std::function<Result<std::unique_ptr<Backend>>()>;

  // make_host: empty: the host computes no experts. Error: kOutOfMemory.
  static Result<std::unique_ptr<GpuBackend>> Make(std::unique_ptr<GpuDriver> driver,
                                                  MakeHostBackend make_host = {});
  ~GpuBackend() override;
  std::string_view Name() const override { return name_; }
  const GpuDevice& device() const { return driver_->device(); }

  // gpu_backend.cc
  bool OnHost() const override { return false; }
  std::optional<std::int64_t> DeviceMemory() const override { return device().free_bytes; }
  bool ReadsWeightsInPlace() const override { return device().reads_weights_in_place; }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override;
  Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) override;
  Status Reserve(const StepLimits& limits) override;
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override;
  Result<std::unique_ptr<Profiler>> MakeProfiler() override;
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void CopyPieces(std::span<const PieceCopy> pieces) override;
  Status Synchronize() override { return Wait(Mark()); }
  Ticket Mark() override;
  Status Wait(Ticket ticket) override;
  Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) override;

  // gpu_experts.cc
  Status PlaceExperts(const ExpertPlaces& places) override;
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override;

 private:
  // gpu_backend.cc
  void Compute(const Operation& operation) override;

  // The operations of one source file each, and what computes an operation if the file has it.
  struct DenseOperations;
  struct AttentionOperations;
  struct ExpertOperations;
  bool ComputeDense(const Operation& operation);
  bool ComputeAttention(const Operation& operation);
  bool ComputeExpert(const Operation& operation);

  // The experts of a block, in the form that kernels read.
  struct BoundExperts {
    std::unique_ptr<Buffer> table;  // ExpertWeights by id; without data: not computed by the device
    // Copies of weights that were in memory of the host; null: none.
    std::unique_ptr<Buffer> on_device;
    std::unique_ptr<Buffer> shared;
    std::int64_t n = 0;
    std::int64_t width = 0;     // moe_intermediate
    bool is_quantized = false;  // FP8 or FP4
  };
  // The point in the work that a ticket refers to.
  struct MarkedPoint {
    std::uint64_t* fault = nullptr;  // the fault word at that point, in pinned memory
    Ticket ticket;                   // ticket of the driver
  };
  static constexpr std::size_t kTickets = 64;  // tickets whose points are stored

  GpuBackend(std::unique_ptr<GpuDriver> driver, MakeHostBackend make_host);
  // Allocates the buffers that do not depend on the sizes of steps. Called once.
  Status AllocateFixed();
  Status AllocateTo(std::unique_ptr<Buffer>& buffer, std::int64_t bytes,
                    MemoryKind kind = MemoryKind::kDevice);
  // Keeps a buffer that is large enough, or replaces it.
  Status EnsureBytes(std::unique_ptr<Buffer>& buffer, std::int64_t bytes,
                     MemoryKind kind = MemoryKind::kDevice);
  Status CopyExperts(std::int64_t block, std::span<const ExpertWeights> experts,
                     BoundExperts& bound);
  // Runs a kernel unless there are no blocks.
  template <class Arguments>
  void Launch(GpuKernel kernel, std::int64_t blocks, const Arguments& arguments,
              std::int64_t shared_bytes = 0, int threads = kMaxBlockThreads) {
    if (blocks > 0) {
      LaunchWith(*driver_, kernel, {.x = blocks, .threads = threads, .shared_bytes = shared_bytes},
                 arguments);
    }
  }
  // Runs one thread for every number.
  template <class Arguments>
  void LaunchOnNumbers(GpuKernel kernel, std::int64_t n, const Arguments& arguments) {
    Launch(kernel, DivideUp(n, kMaxBlockThreads), arguments);
  }
  // Runs a group of kGroupThreads threads for every item.
  template <class Arguments>
  void LaunchOnGroups(GpuKernel kernel, std::int64_t n, const Arguments& arguments) {
    LaunchOnNumbers(kernel, n * kGroupThreads, arguments);
  }
  // Copies the elements to memory of the device, valid until the next call. At most
  // kGpuStagedBytes.
  template <class T>
  const T* Stage(std::span<const T> elements) {
    driver_->Upload(staged_->address(), std::as_bytes(elements));
    return reinterpret_cast<const T*>(staged_->address());
  }
  // Calls run(part) for all elements, as many at a time as Stage takes.
  template <class T, class Run>
  static void ForStageable(std::span<const T> elements, const Run& run) {
    constexpr auto kMost = static_cast<std::size_t>(kGpuStagedBytes) / sizeof(T);
    for (std::size_t first = 0; first < elements.size(); first += kMost) {
      run(elements.subspan(first, std::min(kMost, elements.size() - first)));
    }
  }
  // Returns how many rows of `cols` numbers fit into codes_; at least one.
  std::int64_t RowsOfCodes(std::int64_t cols) const;
  // Quantises at most RowsOfCodes rows into codes_ and scales_.
  void Quantize(Matrix<const Bf16> x);
  // Quantises at most gpu::kFewRows rows into lane_rows_ and scales_, for weights of the format.
  gpu::LaneRows QuantizeFew(Matrix<const Bf16> x, WeightFormat format);
  // Returns how many rows of a weight of n rows a block multiplies with `rows` rows, as a power of
  // two: fewer where the device would have less than two blocks for each multiprocessor.
  int ProductShift(std::int64_t n, std::int64_t rows) const;
  Matrix<std::uint8_t> Codes(std::int64_t rows, std::int64_t cols) const;
  Matrix<float> CodeScales(std::int64_t rows, std::int64_t cols) const;
  std::uint64_t* fault() const { return reinterpret_cast<std::uint64_t*>(fault_->address()); }

  std::unique_ptr<ProfiledDriver> driver_;
  MakeHostBackend make_host_;
  MemoryLedger ledger_;
  std::string name_;
  StepLimits limits_;
  StepBatch batch_;
  DeviceSampler sampler_;
  PinnedResults results_;
  std::unique_ptr<Buffer> fault_;      // the fault word
  std::unique_ptr<Buffer> faults_;     // pinned: the fault word of each of marks_
  std::unique_ptr<Buffer> staged_;     // lists from the host, for the next kernel
  std::unique_ptr<Buffer> codes_;      // codes of quantised activations
  std::unique_ptr<Buffer> scales_;     // scales of the codes
  std::unique_ptr<Buffer> lane_rows_;  // few quantised activations, in the order of lane_rows.h
  std::unique_ptr<Buffer> embedded_;   // rows of an embedding in host memory: [max_tokens, hidden]
  std::unique_ptr<Buffer> hidden_;     // [rows, moe_intermediate] of experts
  std::unique_ptr<Buffer> scores_;     // scores of compressed rows, for some tokens
  std::unique_ptr<Buffer> chains_;     // chains of the gates of hyper-connections, for some rows
  std::unique_ptr<Buffer> attention_;  // lists of attention, for some tokens
  std::vector<std::unique_ptr<Buffer>> imported_;
  ExpertPlaces places_;
  std::optional<HostExperts> host_experts_;  // set if the host computes some
  std::vector<BoundExperts> experts_;        // by block
  std::vector<Bf16> host_rows_;              // to be copied to embedded_
  std::vector<std::int64_t> row_counts_;     // for the tokens of a call
  std::vector<TableChange> table_changes_;   // changes of a launch, each entry once
  Status kept_;                              // the error of an operation that returns none
  FaultWord fault_word_;
  std::uint64_t n_marks_ = 0;
  std::array<MarkedPoint, kTickets> marks_{};  // by number of the ticket
};

}  // namespace fathom::kernels
