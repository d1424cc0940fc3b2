// RemoteBackend: a backend of the host behind a wall, as a device would be.
//
// Its device memory has addresses that the host may not touch: whoever reads or writes through one
// outside of the operations is killed by the system. Operations find the bytes elsewhere. A test
// that passes with it shows that nothing above kernels/ reads memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/roofline.h"

namespace fathom::testing {

// When operations run.
enum class RemoteOrder {
  kAtOnce,
  kWhenAwaited,  // in Synchronize and Wait: what nobody has waited for is not there
};

// Gives the results of `host`, whose memory it uses. Aborts where an operation is given memory of
// the host in place of the backend's, or a batch that BeginStep was not given.
class RemoteBackend final : public Backend {
 public:
  RemoteBackend(std::unique_ptr<Backend> host, RemoteOrder order);
  ~RemoteBackend() override;
  std::string_view Name() const override { return name_; }

  bool OnHost() const override { return false; }
  Result<std::unique_ptr<Buffer>> Allocate(std::int64_t bytes, MemoryKind kind) override;
  Result<std::vector<const std::byte*>> Import(
      std::span<const std::span<const std::byte>> pieces) override;
  Status Reserve(const StepLimits& limits) override { return host_->Reserve(limits); }
  Result<std::unique_ptr<RooflineProbe>> MakeRooflineProbe(
      const RooflineOptions& options) const override {
    return host_->MakeRooflineProbe(options);
  }
  void Upload(void* to, std::span<const std::byte> from) override;
  void Download(std::span<std::byte> to, const void* from) override;
  void CopyPieces(std::span<const PieceCopy> pieces) override;
  Status Synchronize() override;
  Ticket Mark() override { return {n_called_}; }
  Status Wait(Ticket ticket) override;
  Status BeginStep(const BatchView& batch, std::span<const TableChange> changes) override;
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override;

 private:
  class RemoteBuffer;
  // The arrays of a step, as the backend has them.
  struct StagedBatch {
    BatchView of;  // the host's
    std::vector<Token> tokens;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> segment_of_row;
    std::vector<Segment> segments;
  };
  struct Range {
    std::int64_t bytes = 0;
    std::byte* host = nullptr;  // where the bytes are
  };

  void Compute(const Operation& operation) override;

  class Operands;

  // Where the bytes at an address of the backend are; null for null. Weights may be the host's.
  std::byte* Find(const void* address, std::int64_t bytes, bool host_allowed) const;
  template <class T>
  T* Here(T* data, std::int64_t count, bool host_allowed) const;
  template <class Op>
  void Defer(Op op);
  // Returns a function that returns the backend's copy of the batch.
  std::function<BatchView()> Staged(const BatchView& batch) const;
  // Queues work, and does it if operations run at once.
  void Queue(std::function<void()> work);
  void RunUntil(std::uint64_t number);

  std::unique_ptr<Backend> host_;
  RemoteOrder order_;
  std::string name_;
  std::map<const std::byte*, Range> ranges_;  // by address
  std::vector<std::unique_ptr<Buffer>> imported_;
  std::vector<std::unique_ptr<std::vector<ExpertWeights>>> bound_;
  std::shared_ptr<StagedBatch> batch_;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t n_called_ = 0;
};

// The memory that a test computes in.
enum class TestMemory {
  kHost,
  kRemote,         // RemoteOrder::kAtOnce
  kRemoteAwaited,  // RemoteOrder::kWhenAwaited
};
inline constexpr TestMemory kTestMemories[] = {TestMemory::kHost, TestMemory::kRemote,
                                               TestMemory::kRemoteAwaited};
std::string Name(TestMemory memory);
// `host` itself, or behind a wall.
std::unique_ptr<Backend> WithMemory(std::unique_ptr<Backend> host, TestMemory memory);
// The reference backend with that memory.
std::unique_ptr<Backend> MakeReference(TestMemory memory);

// Bytes of the backend's memory, waited for.
std::vector<std::byte> ReadBack(Backend& backend, const void* from, std::int64_t bytes);

}  // namespace fathom::testing
