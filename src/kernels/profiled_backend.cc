#include "kernels/profiled_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/matrix_bytes.h"

namespace fathom {

struct ProfiledBackend::Piece {
  std::string name;
  WorkCost cost{};
};

class ProfiledBackend::HostProfiler final : public Profiler {
 public:
  explicit HostProfiler(ProfiledBackend& backend) : backend_(backend) {}
  Status Start() override {
    backend_.recorder_.Clear();
    backend_.is_on_ = true;
    backend_.free_since_ = Clock::now();
    return {};
  }
  void EnterPart(std::string_view part) override { backend_.recorder_.EnterPart(part); }
  Result<Profile> Stop() override {
    const std::chrono::duration<double> between = Clock::now() - backend_.free_since_;
    backend_.recorder_.AddBetween(between.count());
    backend_.is_on_ = false;
    if (Status ended = backend_.Synchronize(); !ended) return Unexpected(ended.error());
    return backend_.recorder_.Take();
  }

 private:
  ProfiledBackend& backend_;
};

ProfiledBackend::ProfiledBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  Check(backend_->OnHost(), "a profile of calls, of a backend whose work ends later");
}

Result<std::unique_ptr<Profiler>> ProfiledBackend::MakeProfiler() {
  return std::make_unique<HostProfiler>(*this);
}

// Measures one operation, from construction to destruction, while a profile is taken.
class ProfiledBackend::Timer {
 public:
  // describe() returns the piece. The time since the piece before counts as between.
  template <class Describe>
  Timer(ProfiledBackend& backend, const Describe& describe) : backend_(backend) {
    if (!backend_.is_on_) return;
    const std::chrono::duration<double> between = Clock::now() - backend_.free_since_;
    backend_.recorder_.AddBetween(between.count());
    piece_ = describe();
    start_ = Clock::now();
  }
  ~Timer() {
    if (!piece_) return;
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    backend_.recorder_.Add(backend_.recorder_.part(), piece_->name, seconds.count(), piece_->cost);
    backend_.free_since_ = Clock::now();
  }

 private:
  ProfiledBackend& backend_;
  std::optional<Piece> piece_;  // nullopt: no profile is taken
  Clock::time_point start_;
};

namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

template <class T>
std::int64_t SizeOfSpan(std::span<const T> span) {
  return static_cast<std::int64_t>(span.size_bytes());
}

WorkCost Moves(std::int64_t bytes) { return {.bytes = static_cast<double>(bytes)}; }

WorkCost Computes(std::int64_t bytes, std::int64_t multiply_adds) {
  return {.bytes = static_cast<double>(bytes), .flops = 2.0 * static_cast<double>(multiply_adds)};
}

std::string_view Name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "F32";
    case WeightFormat::kBf16:
      return "BF16";
    case WeightFormat::kFp8:
      return "FP8";
    case WeightFormat::kFp4:
      return "FP4";
  }
  return "";
}

// Names the sizes in the checkpoint's order: [n, k].
std::string OperationName(std::string_view operation, const Weight& w) {
  return fmt::format("{} {} [{}, {}]", operation, Name(w.format), w.n, w.k);
}

template <class Out>
WorkCost CostOfProduct(Matrix<const Bf16> x, const Weight& w, Matrix<Out> out) {
  return Computes(SumOfSizes(x, w, out), x.rows * w.n * w.k);
}

WorkCost CostOfGates(Matrix<const Bf16> streams, Matrix<Bf16> out, std::int64_t gates) {
  return Computes(SumOfSizes(streams, out) + gates * streams.cols * kFloatBytes,
                  streams.rows * gates * streams.cols);
}

// Counts each chosen expert once.
WorkCost CostOfExperts(Matrix<const Bf16> x, const Routing& routing, const ExpertSet& experts,
                       Matrix<Bf16> rows) {
  std::vector<bool> is_chosen(experts.experts.size());
  std::int64_t bytes = SumOfSizes(x, rows);
  std::int64_t multiply_adds = 0;
  for (std::int64_t i = 0; i < routing.ids.rows * routing.ids.cols; ++i) {
    const std::int32_t id = routing.ids.data[i];
    if (id < 0 || id >= std::ssize(experts.experts)) continue;
    const ExpertWeights& expert = experts.experts[static_cast<std::size_t>(id)];
    for (const Weight* const w : {&expert.w1, &expert.w2, &expert.w3}) {
      multiply_adds += w->n * w->k;
      if (!is_chosen[static_cast<std::size_t>(id)]) bytes += SizeInBytes(*w);
    }
    is_chosen[static_cast<std::size_t>(id)] = true;
  }
  return Computes(bytes, multiply_adds);
}

// Counts a score and a sum of values for each key and each number of every head.
WorkCost CostOfAttention(const AttentionInput& input, const BatchView& batch,
                         const LayerCache& cache, Matrix<Bf16> out) {
  std::int64_t keys = 0;
  for (const std::int32_t position : batch.positions) {
    const std::int64_t visible = VisibleRows(position, cache.ratio);
    // In blocks of drafts, the few rows of the block itself are ignored.
    keys += std::min<std::int64_t>(position + 1, input.sliding_window) +
            (input.selected.cols > 0 ? std::min(visible, input.selected.cols) : visible);
  }
  return Computes(keys * KeyBytes(cache.window.rows.layout) +
                      SumOfSizes(input.q, input.rope, input.selected, out),
                  2 * keys * input.q.cols);
}

// `scored`: the rows of all tokens together.
WorkCost CostOfScores(Matrix<const std::uint8_t> queries, std::int64_t scored,
                      std::int64_t out_bytes) {
  const std::int64_t heads = queries.cols / kPackedIndexBytes;
  return Computes(SizeInBytes(queries) + scored * kPackedIndexBytes + out_bytes,
                  scored * heads * kIndexDim);
}

}  // namespace

void ProfiledBackend::Upload(void* to, std::span<const std::byte> from) {
  const Timer timer(*this, [&] { return Piece{"Upload", Moves(2 * SizeOfSpan(from))}; });
  backend_->Upload(to, from);
}

void ProfiledBackend::Download(std::span<std::byte> to, const void* from) {
  const Timer timer(*this, [&] { return Piece{"Download", Moves(2 * SizeOfSpan<std::byte>(to))}; });
  backend_->Download(to, from);
}

void ProfiledBackend::CopyPieces(std::span<const PieceCopy> pieces) {
  const Timer timer(*this, [&] {
    std::int64_t bytes = 0;
    for (const PieceCopy& piece : pieces) bytes += 2 * piece.bytes;
    return Piece{"CopyPieces", Moves(bytes)};
  });
  backend_->CopyPieces(pieces);
}

Status ProfiledBackend::BeginStep(const BatchView& batch, std::span<const TableChange> changes) {
  const Timer timer(*this, [&] { return Piece{"BeginStep"}; });
  return backend_->BeginStep(batch, changes);
}

void ProfiledBackend::FillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                                   Matrix<float> cos, Matrix<float> sin) {
  const Timer timer(*this, [&] { return Piece{"FillRopeRows", Moves(SumOfSizes(cos, sin))}; });
  backend_->FillRopeRows(batch, frequencies, cos, sin);
}

void ProfiledBackend::Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
  const Timer timer(*this, [&] { return Piece{"Embed", Moves(2 * SizeInBytes(out))}; });
  backend_->Embed(batch, table, out);
}

void ProfiledBackend::RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                              Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{"RmsNorm", Moves(SumOfSizes(x, out) + SizeOfSpan(weight))};
  });
  backend_->RmsNorm(x, weight, eps, out);
}

void ProfiledBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{OperationName("Linear", w), CostOfProduct(x, w, out)};
  });
  backend_->Linear(x, w, out);
}

void ProfiledBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) {
  const Timer timer(*this, [&] {
    return Piece{OperationName("Linear", w), CostOfProduct(x, w, out)};
  });
  backend_->Linear(x, w, out);
}

void ProfiledBackend::GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                                    Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{OperationName("GroupedLinear", w), CostOfProduct(x, w, out)};
  });
  backend_->GroupedLinear(x, w, groups, out);
}

void ProfiledBackend::SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                             Matrix<Bf16> out) {
  const Timer timer(*this, [&] { return Piece{"SwiGlu", Moves(SumOfSizes(gate, up, out))}; });
  backend_->SwiGlu(gate, up, clamp, out);
}

void ProfiledBackend::HcPre(Matrix<const Bf16> streams, const HcWeights& w,
                            const HcOptions& options, Matrix<Bf16> out, HcMix mix) {
  const Timer timer(*this, [&] { return Piece{"HcPre", CostOfGates(streams, out, kHcGates)}; });
  backend_->HcPre(streams, w, options, out, mix);
}

void ProfiledBackend::HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) {
  const Timer timer(*this, [&] {
    return Piece{"HcPost", Moves(SumOfSizes(y, mix.post, mix.comb, streams, streams))};
  });
  backend_->HcPost(y, mix, streams);
}

void ProfiledBackend::HcHead(Matrix<const Bf16> streams, const HcWeights& w,
                             const HcOptions& options, Matrix<Bf16> out) {
  const Timer timer(*this, [&] { return Piece{"HcHead", CostOfGates(streams, out, kStreams)}; });
  backend_->HcHead(streams, w, options, out);
}

void ProfiledBackend::AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) {
  const Timer timer(*this, [&] {
    return Piece{"AddToStreams", Moves(SumOfSizes(x, streams, streams))};
  });
  backend_->AddToStreams(x, streams);
}

void ProfiledBackend::MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                                    Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{"MeanOfStreams", Moves(SizeInBytes(streams) + SizeInBytes(streams) / kStreams)};
  });
  backend_->MeanOfStreams(streams, first_column, out);
}

void ProfiledBackend::Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) {
  const Timer timer(*this, [&] { return Piece{"Add", Moves(SumOfSizes(x, y, out))}; });
  backend_->Add(x, y, out);
}

void ProfiledBackend::QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                                 const RopeRows& rope) {
  const Timer timer(*this, [&] { return Piece{"QueryHeads", Moves(SumOfSizes(q, q, rope))}; });
  backend_->QueryHeads(q, head_dim, eps, rope);
}

void ProfiledBackend::WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                                 const RopeRows& rope) {
  const Timer timer(*this, [&] {
    return Piece{"WindowKeys", Moves(SumOfSizes(kv, kv, rope) + SizeOfSpan(norm))};
  });
  backend_->WindowKeys(kv, norm, eps, rope);
}

// Counts the inputs too, which are stored.
void ProfiledBackend::Compress(const CompressorInput& input, const BatchView& batch,
                               CompressorCache& cache) {
  const Timer timer(*this, [&] {
    const std::int64_t inputs = SumOfSizes(input.values, input.scores);
    return Piece{cache.IsPacked() ? "Compress (indexer)" : "Compress", Moves(2 * inputs)};
  });
  backend_->Compress(input, batch, cache);
}

void ProfiledBackend::IndexQueries(Matrix<const Bf16> q, const RopeRows& rope,
                                   Matrix<std::uint8_t> out) {
  const Timer timer(*this, [&] { return Piece{"IndexQueries", Moves(SumOfSizes(q, rope, out))}; });
  backend_->IndexQueries(q, rope, out);
}

void ProfiledBackend::SelectRows(Matrix<const std::uint8_t> queries,
                                 Matrix<const Bf16> head_weights, const BatchView& batch,
                                 const CompressorCache& cache, Matrix<std::int32_t> rows) {
  const Timer timer(*this, [&] {
    std::int64_t scored = 0;
    for (const std::int32_t position : batch.positions) {
      const std::int64_t visible = VisibleRows(position, cache.ratio);
      scored += visible > rows.cols ? visible : 0;
    }
    return Piece{"SelectRows", CostOfScores(queries, scored, SizeInBytes(rows))};
  });
  backend_->SelectRows(queries, head_weights, batch, cache, rows);
}

void ProfiledBackend::BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                               const BatchView& batch, const CompressorCache& cache,
                               std::span<const RowRange> ranges, Matrix<ScoredRow> best) {
  const Timer timer(*this, [&] {
    std::int64_t scored = 0;
    for (const RowRange& range : ranges) scored += range.n_rows();
    return Piece{"BestRows", CostOfScores(queries, scored, SizeInBytes(best))};
  });
  backend_->BestRows(queries, head_weights, batch, cache, ranges, best);
}

void ProfiledBackend::CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                               Matrix<std::uint8_t> out) {
  const Timer timer(*this, [&] { return Piece{"CopyRows", Moves(2 * SizeInBytes(out))}; });
  backend_->CopyRows(rows, cache, out);
}

void ProfiledBackend::SparseAttention(const AttentionInput& input, const BatchView& batch,
                                      const LayerCache& cache, Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{"SparseAttention", CostOfAttention(input, batch, cache, out)};
  });
  backend_->SparseAttention(input, batch, cache, out);
}

void ProfiledBackend::AppendWindow(Matrix<const Bf16> keys, const BatchView& batch,
                                   WindowCache& cache) {
  const Timer timer(*this, [&] {
    const std::int64_t written = keys.rows * KeyBytes(cache.rows.layout);
    return Piece{"AppendWindow", Moves(SizeInBytes(keys) + written)};
  });
  backend_->AppendWindow(keys, batch, cache);
}

void ProfiledBackend::Route(Matrix<const float> logits, std::span<const float> bias, float scale,
                            const Routing& out) {
  const Timer timer(*this, [&] {
    return Piece{"Route", Moves(SumOfSizes(logits, out.ids, out.weights))};
  });
  backend_->Route(logits, bias, scale, out);
}

void ProfiledBackend::RouteByToken(const BatchView& batch, Matrix<const float> logits,
                                   Matrix<const std::int64_t> table, float scale,
                                   const Routing& out) {
  const Timer timer(*this, [&] {
    return Piece{"RouteByToken", Moves(SumOfSizes(logits, out.ids, out.weights))};
  });
  backend_->RouteByToken(batch, logits, table, scale, out);
}

void ProfiledBackend::ExpertRows(Matrix<const Bf16> x, const Routing& routing,
                                 const ExpertSet& experts, float clamp, Matrix<Bf16> rows) {
  const Timer timer(*this, [&] {
    return Piece{"ExpertRows", CostOfExperts(x, routing, experts, rows)};
  });
  backend_->ExpertRows(x, routing, experts, clamp, rows);
}

void ProfiledBackend::CombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                                     Matrix<Bf16> out) {
  const Timer timer(*this, [&] {
    return Piece{"CombineExperts", Moves(SumOfSizes(rows, shared, out))};
  });
  backend_->CombineExperts(rows, shared, out);
}

void ProfiledBackend::ChooseTokens(Matrix<const float> logits, std::span<const SamplingRow> rows,
                                   std::span<TokenChoice> choices) {
  const Timer timer(*this, [&] { return Piece{"ChooseTokens", Moves(SizeInBytes(logits))}; });
  backend_->ChooseTokens(logits, rows, choices);
}

}  // namespace fathom
