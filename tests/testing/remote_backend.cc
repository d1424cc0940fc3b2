#include "tests/testing/remote_backend.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/reference/reference_backend.h"
#include "tests/emulator/reserved_addresses.h"

namespace fathom::testing {
namespace {

std::int64_t Bytes(const BlockRows& rows) { return rows.row_bytes == 0 ? 0 : 1; }

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

template <class T>
Matrix<T> RemoteBackend::Here(Matrix<T> m) const {
  return {Here(m.data, m.rows * m.cols, false), m.rows, m.cols};
}

template <class T>
Matrix<T> RemoteBackend::WeightHere(Matrix<T> m) const {
  return {Here(m.data, m.rows * m.cols, true), m.rows, m.cols};
}

template <class T>
std::span<T> RemoteBackend::WeightHere(std::span<T> vector) const {
  return {Here(vector.data(), std::ssize(vector), true), vector.size()};
}

Weight RemoteBackend::Here(Weight weight) const {
  weight.data = Here(weight.data, std::ssize(weight.Bytes()), true);
  weight.scales = Here(weight.scales, std::ssize(weight.ScaleBytes()), true);
  return weight;
}

HcWeights RemoteBackend::Here(HcWeights w) const {
  return {Here(w.fn, 1, true), Here(w.base, 1, true), Here(w.scale, 1, true)};
}

RopeRows RemoteBackend::Here(const RopeRows& rope) const {
  return {Here(rope.cos), Here(rope.sin)};
}

Routing RemoteBackend::Here(const Routing& routing) const {
  return {Here(routing.ids), Here(routing.weights)};
}

BlockRows RemoteBackend::Here(BlockRows rows) const {
  rows.data = Here(rows.data, Bytes(rows), false);
  rows.table = Here(rows.table, Bytes(rows), false);
  return rows;
}

CompressorCache RemoteBackend::Here(CompressorCache cache) const {
  cache.rows.blocks = Here(cache.rows.blocks);
  cache.packed_rows = Here(cache.packed_rows);
  cache.boundary_rows = Here(cache.boundary_rows);
  cache.tail_values = Here(cache.tail_values);
  cache.tail_scores = Here(cache.tail_scores);
  return cache;
}

LayerCache RemoteBackend::Here(LayerCache cache) const {
  cache.window.rows.blocks = Here(cache.window.rows.blocks);
  cache.compressor = Here(cache.compressor);
  cache.indexer = Here(cache.indexer);
  return cache;
}

void RemoteBackend::Run(std::function<void()> operation) {
  ++n_called_;
  waiting_.push_back(std::move(operation));
  if (order_ == RemoteOrder::kAtOnce) {
    RunUntil(n_called_);
  }
}

void RemoteBackend::RunUntil(std::uint64_t number) {
  while (n_called_ - waiting_.size() < number) {
    const std::function<void()> operation = std::move(waiting_.front());
    waiting_.pop_front();
    operation();
  }
}

template <class Body>
void RemoteBackend::Run(const BatchView& batch, Body body) {
  Check(batch_ != nullptr, "an operation of a batch before BeginStep");
  const std::ptrdiff_t first = batch.tokens.data() - batch_->of.tokens.data();
  Check(first >= 0 && first + batch.n_tokens() <= batch_->of.n_tokens() &&
            batch.segments.data() == batch_->of.segments.data(),
        "a batch that BeginStep was not given");
  Run([staged = batch_, first, count = batch.n_tokens(), body]() mutable {
    const BatchView whole = {staged->tokens, staged->positions, staged->segment_of_row,
                             staged->segments};
    body(whole.Rows(first, count));
  });
}

Status RemoteBackend::Synchronize() { return Wait(Mark()); }

Status RemoteBackend::Wait(Ticket ticket) {
  RunUntil(ticket.number);
  return host_->Synchronize();
}

void RemoteBackend::Upload(void* to, std::span<const std::byte> from) {
  auto* there = Here(static_cast<std::byte*>(to), std::ssize(from), false);
  Run([this, there, copy = std::vector(from.begin(), from.end())] { host_->Upload(there, copy); });
}

void RemoteBackend::Download(std::span<std::byte> to, const void* from) {
  const auto* there = Here(static_cast<const std::byte*>(from), std::ssize(to), false);
  Run([this, to, there] { host_->Download(to, there); });
}

void RemoteBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  std::vector<PieceCopy> there;
  for (const PieceCopy& piece : pieces) {
    there.push_back({Here(static_cast<std::byte*>(piece.to), piece.bytes, false),
                     Here(static_cast<const std::byte*>(piece.from), piece.bytes, false),
                     piece.bytes});
  }
  Run([this, there] { host_->CopyPieces(there); });
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
  Run([this, staged = batch_, there] { Check(host_->BeginStep({}, there).has_value(), "a step"); });
  return {};
}

void RemoteBackend::FillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                                 Matrix<float> cos, Matrix<float> sin) {
  Run(batch, [this, frequencies = WeightHere(frequencies), cos = Here(cos), sin = Here(sin)](
                 const BatchView& b) { host_->FillRopeRows(b, frequencies, cos, sin); });
}

void RemoteBackend::Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
  Run(batch, [this, table = WeightHere(table), out = Here(out)](const BatchView& b) {
    host_->Embed(b, table, out);
  });
}

void RemoteBackend::RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                            Matrix<Bf16> out) {
  Run([this, x = Here(x), weight = WeightHere(weight), eps, out = Here(out)] {
    host_->RmsNorm(x, weight, eps, out);
  });
}

void RemoteBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) {
  Run([this, x = Here(x), w = Here(w), out = Here(out)] { host_->Linear(x, w, out); });
}

void RemoteBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) {
  Run([this, x = Here(x), w = Here(w), out = Here(out)] { host_->Linear(x, w, out); });
}

void RemoteBackend::GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                                  Matrix<Bf16> out) {
  Run([this, x = Here(x), w = Here(w), groups, out = Here(out)] {
    host_->GroupedLinear(x, w, groups, out);
  });
}

void RemoteBackend::SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                           Matrix<Bf16> out) {
  Run([this, gate = Here(gate), up = Here(up), clamp, out = Here(out)] {
    host_->SwiGlu(gate, up, clamp, out);
  });
}

void RemoteBackend::HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                          Matrix<Bf16> out, HcMix mix) {
  Run([this, streams = Here(streams), w = Here(w), options, out = Here(out),
       mix = HcMix{Here(mix.post), Here(mix.comb)}] {
    host_->HcPre(streams, w, options, out, mix);
  });
}

void RemoteBackend::HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) {
  Run([this, y = Here(y), mix = HcMix{Here(mix.post), Here(mix.comb)}, streams = Here(streams)] {
    host_->HcPost(y, mix, streams);
  });
}

void RemoteBackend::HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                           Matrix<Bf16> out) {
  Run([this, streams = Here(streams), w = Here(w), options, out = Here(out)] {
    host_->HcHead(streams, w, options, out);
  });
}

void RemoteBackend::AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) {
  Run([this, x = Here(x), streams = Here(streams)] { host_->AddToStreams(x, streams); });
}

void RemoteBackend::MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                                  Matrix<Bf16> out) {
  Run([this, streams = Here(streams), first_column, out = Here(out)] {
    host_->MeanOfStreams(streams, first_column, out);
  });
}

void RemoteBackend::Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) {
  Run([this, x = Here(x), y = Here(y), out = Here(out)] { host_->Add(x, y, out); });
}

void RemoteBackend::QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                               const RopeRows& rope) {
  Run([this, q = Here(q), head_dim, eps, rope = Here(rope)] {
    host_->QueryHeads(q, head_dim, eps, rope);
  });
}

void RemoteBackend::WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                               const RopeRows& rope) {
  Run([this, kv = Here(kv), norm = WeightHere(norm), eps, rope = Here(rope)] {
    host_->WindowKeys(kv, norm, eps, rope);
  });
}

void RemoteBackend::Compress(const CompressorInput& input, const BatchView& batch,
                             CompressorCache& cache) {
  CompressorInput there = input;
  there.values = Here(input.values);
  there.scores = Here(input.scores);
  there.ape = Here(input.ape, 1, true);
  there.norm = WeightHere(input.norm);
  there.frequencies = WeightHere(input.frequencies);
  Run(batch, [this, there, views = Here(cache)](const BatchView& b) mutable {
    host_->Compress(there, b, views);
  });
}

void RemoteBackend::IndexQueries(Matrix<const Bf16> q, const RopeRows& rope,
                                 Matrix<std::uint8_t> out) {
  Run([this, q = Here(q), rope = Here(rope), out = Here(out)] {
    host_->IndexQueries(q, rope, out);
  });
}

void RemoteBackend::SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                               const BatchView& batch, const CompressorCache& cache,
                               Matrix<std::int32_t> rows) {
  Run(batch, [this, queries = Here(queries), head_weights = Here(head_weights), views = Here(cache),
              rows = Here(rows)](const BatchView& b) {
    host_->SelectRows(queries, head_weights, b, views, rows);
  });
}

void RemoteBackend::BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                             const BatchView& batch, const CompressorCache& cache,
                             std::span<const RowRange> ranges, Matrix<ScoredRow> best) {
  Run(batch,
      [this, queries = Here(queries), head_weights = Here(head_weights), views = Here(cache),
       copy = std::vector(ranges.begin(), ranges.end()), best = Here(best)](const BatchView& b) {
        host_->BestRows(queries, head_weights, b, views, copy, best);
      });
}

void RemoteBackend::CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                             Matrix<std::uint8_t> out) {
  Run([this, copy = std::vector(rows.begin(), rows.end()), views = Here(cache), out = Here(out)] {
    host_->CopyRows(copy, views, out);
  });
}

void RemoteBackend::SparseAttention(const AttentionInput& input, const BatchView& batch,
                                    const LayerCache& cache, Matrix<Bf16> out) {
  AttentionInput there = input;
  there.q = Here(input.q);
  there.keys = Here(input.keys);
  there.selected = Here(input.selected);
  there.gathered = Here(input.gathered);
  there.sinks = WeightHere(input.sinks);
  there.rope = Here(input.rope);
  Run(batch, [this, there, views = Here(cache), out = Here(out)](const BatchView& b) {
    host_->SparseAttention(there, b, views, out);
  });
}

void RemoteBackend::AppendWindow(Matrix<const Bf16> keys, const BatchView& batch,
                                 WindowCache& cache) {
  WindowCache views = cache;
  views.rows.blocks = Here(cache.rows.blocks);
  Run(batch, [this, keys = Here(keys), views](const BatchView& b) mutable {
    host_->AppendWindow(keys, b, views);
  });
}

void RemoteBackend::Route(Matrix<const float> logits, std::span<const float> bias, float scale,
                          const Routing& out) {
  Run([this, logits = Here(logits), bias = WeightHere(bias), scale, out = Here(out)] {
    host_->Route(logits, bias, scale, out);
  });
}

void RemoteBackend::RouteByToken(const BatchView& batch, Matrix<const float> logits,
                                 Matrix<const std::int64_t> table, float scale,
                                 const Routing& out) {
  Run(batch, [this, logits = Here(logits), table = WeightHere(table), scale, out = Here(out)](
                 const BatchView& b) { host_->RouteByToken(b, logits, table, scale, out); });
}

ExpertSet RemoteBackend::BindExperts(std::int64_t block, std::span<const ExpertWeights> experts) {
  auto bound = std::make_unique<std::vector<ExpertWeights>>();
  for (const ExpertWeights& expert : experts) {
    bound->push_back({Here(expert.w1), Here(expert.w2), Here(expert.w3)});
  }
  bound_.push_back(std::move(bound));
  return host_->BindExperts(block, *bound_.back());
}

void RemoteBackend::ExpertRows(Matrix<const Bf16> x, const Routing& routing,
                               const ExpertSet& experts, float clamp, Matrix<Bf16> rows) {
  Run([this, x = Here(x), routing = Here(routing), experts, clamp, rows = Here(rows)] {
    host_->ExpertRows(x, routing, experts, clamp, rows);
  });
}

void RemoteBackend::CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                                   Matrix<Bf16> out) {
  Run([this, rows = Here(rows), shared = Here(shared), out = Here(out)] {
    host_->CombineExperts(rows, shared, out);
  });
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
