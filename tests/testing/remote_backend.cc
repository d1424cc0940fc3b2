#include "tests/testing/remote_backend.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "kernels/reference/reference_backend.h"
#include "tests/emulator/reserved_addresses.h"

namespace fathom::testing {
namespace {

std::int64_t Bytes(const BlockRows& rows) { return rows.row_bytes == 0 ? 0 : 1; }

// A list of the host is read before the call returns: the operation keeps a copy.
template <class T>
std::shared_ptr<void> KeepList(std::span<const T>& list) {
  const auto copy = std::make_shared<std::vector<T>>(list.begin(), list.end());
  list = *copy;
  return copy;
}

}  // namespace

// Device memory: addresses that nobody may touch, and a buffer of the host where the bytes are.
// Shared memory: the buffer of the host alone.
class RemoteBackend::RemoteBuffer : public Buffer {
 public:
  RemoteBuffer(RemoteBackend& backend, std::unique_ptr<Buffer> host,
               std::unique_ptr<emulator::ReservedAddresses> wall)
      : Buffer(wall == nullptr ? host->address() : wall->address(), host->bytes(),
               /*on_host=*/wall == nullptr),
        backend_(backend),
        host_(std::move(host)),
        wall_(std::move(wall)) {
    backend_.ranges_[address()] = {bytes(), host_->address()};
  }
  ~RemoteBuffer() override {
    backend_.RunUntil(backend_.n_called_);
    backend_.ranges_.erase(address());
  }

 private:
  RemoteBackend& backend_;
  std::unique_ptr<Buffer> host_;
  std::unique_ptr<emulator::ReservedAddresses> wall_;  // null for shared memory
};

RemoteBackend::RemoteBackend(std::unique_ptr<Backend> host, RemoteOrder order)
    : host_(std::move(host)), order_(order), name_("remote " + std::string(host_->Name())) {}

RemoteBackend::~RemoteBackend() {
  RunUntil(n_called_);
  imported_.clear();
}

Result<std::unique_ptr<Buffer>> RemoteBackend::Allocate(std::int64_t bytes, MemoryKind kind) {
  Result<std::unique_ptr<Buffer>> host = host_->Allocate(bytes, kind);
  if (!host) {
    return Unexpected(host.error());
  }
  std::unique_ptr<emulator::ReservedAddresses> wall;
  if (kind == MemoryKind::kDevice) {
    wall = std::make_unique<emulator::ReservedAddresses>(bytes);
  }
  return std::make_unique<RemoteBuffer>(*this, *std::move(host), std::move(wall));
}

Result<std::vector<const std::byte*>> RemoteBackend::Import(
    std::span<const std::span<const std::byte>> pieces) {
  std::vector<const std::byte*> addresses;
  for (const std::span<const std::byte> piece : pieces) {
    Result<std::unique_ptr<Buffer>> buffer = Allocate(std::ssize(piece), MemoryKind::kDevice);
    if (!buffer) {
      return Unexpected(buffer.error());
    }
    imported_.push_back(*std::move(buffer));
    Upload(imported_.back()->address(), piece);
    addresses.push_back(imported_.back()->address());
  }
  return addresses;
}

std::byte* RemoteBackend::Find(const void* address, std::int64_t bytes, bool host_allowed) const {
  const auto* begin = static_cast<const std::byte*>(address);
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin()) {
    --range;
    const std::int64_t offset = begin - range->first;
    if (offset + bytes <= range->second.bytes) {
      return range->second.host + offset;
    }
  }
  Check(host_allowed, "an operation of the remote backend was given memory of the host");
  return const_cast<std::byte*>(begin);
}

template <class T>
T* RemoteBackend::Here(T* data, std::int64_t count, bool host_allowed) const {
  if (data == nullptr || count == 0) {
    return data;
  }
  return reinterpret_cast<T*>(
      Find(data, count * static_cast<std::int64_t>(sizeof(T)), host_allowed));
}

// Makes the views of operands refer to the bytes.
class RemoteBackend::Operands {
 public:
  explicit Operands(const RemoteBackend& backend) : backend_(backend) {}

  void Move(FillRopeRowsOp& op) const { MoveAll(op.frequencies, op.cos, op.sin); }
  void Move(EmbedOp& op) const {
    MoveWeight(op.table);
    Move(op.out);
  }
  void Move(RmsNormOp& op) const { MoveAll(op.x, op.weight, op.out); }
  template <class Out>
  void Move(LinearOp<Out>& op) const {
    MoveAll(op.x, op.w, op.out);
  }
  void Move(GroupedLinearOp& op) const { MoveAll(op.x, op.w, op.out); }
  void Move(SwiGluOp& op) const { MoveAll(op.gate, op.up, op.out); }
  void Move(HcPreOp& op) const { MoveAll(op.streams, op.w, op.out, op.mix); }
  void Move(HcPostOp& op) const { MoveAll(op.y, op.mix, op.streams); }
  void Move(HcHeadOp& op) const { MoveAll(op.streams, op.w, op.out); }
  void Move(AddToStreamsOp& op) const { MoveAll(op.x, op.streams); }
  void Move(MeanOfStreamsOp& op) const { MoveAll(op.streams, op.out); }
  void Move(AddOp& op) const { MoveAll(op.x, op.y, op.out); }
  void Move(QueryHeadsOp& op) const { MoveAll(op.q, op.rope); }
  void Move(WindowKeysOp& op) const { MoveAll(op.kv, op.norm, op.rope); }
  void Move(CompressOp& op) const { MoveAll(op.input, op.cache); }
  void Move(IndexQueriesOp& op) const { MoveAll(op.q, op.rope, op.out); }
  void Move(SelectRowsOp& op) const { MoveAll(op.queries, op.head_weights, op.cache, op.rows); }
  void Move(BestRowsOp& op) const { MoveAll(op.queries, op.head_weights, op.cache, op.best); }
  void Move(CopyRowsOp& op) const { MoveAll(op.cache, op.out); }
  void Move(SparseAttentionOp& op) const { MoveAll(op.input, op.cache, op.out); }
  void Move(AppendWindowOp& op) const { MoveAll(op.keys, op.cache); }
  void Move(RouteOp& op) const { MoveAll(op.logits, op.bias, op.out); }
  void Move(RouteByTokenOp& op) const {
    MoveWeight(op.table);
    MoveAll(op.logits, op.out);
  }
  void Move(ExpertRowsOp& op) const { MoveAll(op.x, op.routing, op.rows); }
  void Move(CombineExpertsOp& op) const { MoveAll(op.rows, op.shared, op.out); }
  void Move(ChooseTokensOp& op) const { Move(op.logits); }
  void Move(ExpertWeights& expert) const { MoveAll(expert.w1, expert.w2, expert.w3); }

 private:
  template <class... Operand>
  void MoveAll(Operand&... operands) const {
    (Move(operands), ...);
  }

  template <class T>
  void Move(Matrix<T>& matrix) const {
    matrix.data = backend_.Here(matrix.data, matrix.rows * matrix.cols, false);
  }
  template <class T>
  void MoveWeight(Matrix<T>& matrix) const {
    matrix.data = backend_.Here(matrix.data, matrix.rows * matrix.cols, true);
  }
  template <class T>
  void Move(std::span<T>& weight) const {
    weight = {backend_.Here(weight.data(), std::ssize(weight), true), weight.size()};
  }
  void Move(Weight& weight) const {
    weight.data = backend_.Here(weight.data, std::ssize(weight.Bytes()), true);
    weight.scales = backend_.Here(weight.scales, std::ssize(weight.ScaleBytes()), true);
  }
  void Move(HcWeights& w) const {
    w = {backend_.Here(w.fn, 1, true), backend_.Here(w.base, 1, true),
         backend_.Here(w.scale, 1, true)};
  }
  void Move(HcMix& mix) const { MoveAll(mix.post, mix.comb); }
  void Move(RopeRows& rope) const { MoveAll(rope.cos, rope.sin); }
  void Move(Routing& routing) const { MoveAll(routing.ids, routing.weights); }
  void Move(CompressorInput& input) const {
    MoveAll(input.values, input.scores, input.norm, input.frequencies);
    input.ape = backend_.Here(input.ape, 1, true);
  }
  void Move(AttentionInput& input) const {
    MoveAll(input.q, input.keys, input.selected, input.gathered, input.sinks, input.rope);
  }
  void Move(BlockRows& rows) const {
    rows.data = backend_.Here(rows.data, Bytes(rows), false);
    rows.table = backend_.Here(rows.table, Bytes(rows), false);
  }
  void Move(WindowCache& cache) const { Move(cache.rows.blocks); }
  void Move(CompressorCache& cache) const {
    MoveAll(cache.rows.blocks, cache.packed_rows, cache.boundary_rows, cache.tail_values,
            cache.tail_scores);
  }
  void Move(LayerCache& cache) const { MoveAll(cache.window, cache.compressor, cache.indexer); }

  const RemoteBackend& backend_;
};

void RemoteBackend::Queue(std::function<void()> work) {
  ++n_called_;
  waiting_.push_back(std::move(work));
  if (order_ == RemoteOrder::kAtOnce) RunUntil(n_called_);
}

void RemoteBackend::RunUntil(std::uint64_t number) {
  while (n_called_ - waiting_.size() < number) {
    const std::function<void()> operation = std::move(waiting_.front());
    waiting_.pop_front();
    operation();
  }
}

std::function<BatchView()> RemoteBackend::Staged(const BatchView& batch) const {
  Check(batch_ != nullptr, "an operation of a batch before BeginStep");
  const std::ptrdiff_t first = batch.tokens.data() - batch_->of.tokens.data();
  Check(first >= 0 && first + batch.n_tokens() <= batch_->of.n_tokens() &&
            batch.segments.data() == batch_->of.segments.data(),
        "a batch that BeginStep was not given");
  return [staged = batch_, first, count = batch.n_tokens()] {
    const BatchView whole = {staged->tokens, staged->positions, staged->segment_of_row,
                             staged->segments};
    return whole.Rows(first, count);
  };
}

Status RemoteBackend::Synchronize() { return Wait(Mark()); }

Status RemoteBackend::Wait(Ticket ticket) {
  RunUntil(ticket.number);
  return host_->Synchronize();
}

void RemoteBackend::Upload(void* to, std::span<const std::byte> from) {
  auto* there = Here(static_cast<std::byte*>(to), std::ssize(from), false);
  Queue(
      [this, there, copy = std::vector(from.begin(), from.end())] { host_->Upload(there, copy); });
}

void RemoteBackend::Download(std::span<std::byte> to, const void* from) {
  const auto* there = Here(static_cast<const std::byte*>(from), std::ssize(to), false);
  Queue([this, to, there] { host_->Download(to, there); });
}

void RemoteBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  std::vector<PieceCopy> there;
  for (const PieceCopy& piece : pieces) {
    there.push_back({Here(static_cast<std::byte*>(piece.to), piece.bytes, false),
                     Here(static_cast<const std::byte*>(piece.from), piece.bytes, false),
                     piece.bytes});
  }
  Queue([this, there] { host_->CopyPieces(there); });
}

Status RemoteBackend::BeginStep(const BatchView& batch, std::span<const TableChange> changes) {
  batch_ = std::make_shared<StagedBatch>(
      StagedBatch{batch,
                  {batch.tokens.begin(), batch.tokens.end()},
                  {batch.positions.begin(), batch.positions.end()},
                  {batch.segment_of_row.begin(), batch.segment_of_row.end()},
                  {batch.segments.begin(), batch.segments.end()}});
  std::vector<TableChange> there;
  for (const TableChange& change : changes) {
    there.push_back({Here(change.entry, 1, false), change.block});
  }
  Queue(
      [this, staged = batch_, there] { Check(host_->BeginStep({}, there).has_value(), "a step"); });
  return {};
}

void RemoteBackend::Compute(const Operation& operation) {
  std::visit([this](auto op) { Defer(op); }, operation);
}

template <class Op>
void RemoteBackend::Defer(Op op) {
  Operands(*this).Move(op);
  std::shared_ptr<void> list;
  if constexpr (std::is_same_v<Op, BestRowsOp>) list = KeepList(op.ranges);
  if constexpr (std::is_same_v<Op, CopyRowsOp>) list = KeepList(op.rows);
  if constexpr (requires { op.batch; }) {
    Queue([this, op, list, batch = Staged(op.batch)]() mutable {
      op.batch = batch();
      host_->Run(op);
    });
  } else {
    Queue([this, op, list] { host_->Run(op); });
  }
}

ExpertSet RemoteBackend::BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) {
  auto bound = std::make_unique<std::vector<ExpertWeights>>(experts.begin(), experts.end());
  for (ExpertWeights& expert : *bound) Operands(*this).Move(expert);
  bound_.push_back(std::move(bound));
  return host_->BindExperts(block, *bound_.back());
}

std::string Name(TestMemory memory) {
  switch (memory) {
    case TestMemory::kHost:
      return "Host";
    case TestMemory::kRemote:
      return "Remote";
    case TestMemory::kRemoteAwaited:
      return "RemoteAwaited";
  }
  return "";
}

std::unique_ptr<Backend> WithMemory(std::unique_ptr<Backend> host, TestMemory memory) {
  if (memory == TestMemory::kHost) {
    return host;
  }
  return std::make_unique<RemoteBackend>(std::move(host), memory == TestMemory::kRemote
                                                              ? RemoteOrder::kAtOnce
                                                              : RemoteOrder::kWhenAwaited);
}

std::unique_ptr<Backend> MakeReference(TestMemory memory) {
  return WithMemory(std::make_unique<ReferenceBackend>(), memory);
}

std::vector<std::byte> ReadBack(Backend& backend, const void* from, std::int64_t bytes) {
  std::vector<std::byte> to(static_cast<std::size_t>(bytes));
  backend.Download(to, from);
  Check(backend.Synchronize().has_value(), "a remote backend without a fault");
  return to;
}

}  // namespace fathom::testing
