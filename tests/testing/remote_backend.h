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
  ExpertSet BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) override;
  void ExpertRows(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                  float clamp, Matrix<Bf16> rows) override;
  void CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                      Matrix<Bf16> out) override;

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

  // Where the bytes at an address of the backend are; null for null. Weights may be the host's.
  std::byte* Find(const void* address, std::int64_t bytes, bool host_allowed) const;
  template <class T>
  T* Here(T* data, std::int64_t count, bool host_allowed) const;
  template <class T>
  Matrix<T> Here(Matrix<T> matrix) const;
  template <class T>
  Matrix<T> WeightHere(Matrix<T> matrix) const;
  template <class T>
  std::span<T> WeightHere(std::span<T> vector) const;
  Weight Here(Weight weight) const;
  HcWeights Here(HcWeights w) const;
  RopeRows Here(const RopeRows& rope) const;
  Routing Here(const Routing& routing) const;
  BlockRows Here(BlockRows rows) const;
  CompressorCache Here(CompressorCache cache) const;
  LayerCache Here(LayerCache cache) const;
  // Calls body(batch) in its turn with the backend's copy of the batch.
  template <class Body>
  void Run(const BatchView& batch, Body body);
  void Run(std::function<void()> operation);
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
