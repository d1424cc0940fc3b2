#include "kernels/gpu/kernel_bytes.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/compressor.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/device/experts.h"
#include "kernels/gpu/device/hyper_connection.h"
#include "kernels/gpu/device/indexer.h"
#include "kernels/gpu/device/linear.h"
#include "kernels/gpu/device/norm.h"
#include "kernels/gpu/device/roofline.h"
#include "kernels/gpu/device/route.h"
#include "kernels/matrix_bytes.h"

namespace fathom::kernels {
namespace gpu {
namespace {

// Reads lists in memory of the device.
class DeviceReader {
 public:
  explicit DeviceReader(GpuDriver& driver) : driver_(driver) {}

  // Returns an empty list if the device fails.
  template <class T>
  std::vector<T> Read(const T* from, std::int64_t n) {
    std::vector<T> elements(static_cast<std::size_t>(n));
    driver_.Download(std::as_writable_bytes(std::span(elements)), from);
    has_waited_ = true;
    if (!driver_.Synchronize()) elements.clear();
    return elements;
  }
  bool has_waited() const { return has_waited_; }

 private:
  GpuDriver& driver_;
  bool has_waited_ = false;
};

// The launch of a kernel.
struct Call {
  DeviceReader& device;
  const GpuGrid& grid;
};

std::int64_t Bytes(Call, const EmbedArguments& a) {
  return a.out.rows * a.table.cols * static_cast<std::int64_t>(sizeof(Bf16)) + SumOfSizes(a.out);
}
std::int64_t Bytes(Call, const SwiGluArguments& a) {
  return 3 * a.n * static_cast<std::int64_t>(sizeof(Bf16));
}
std::int64_t Bytes(Call call, const CopyPiecesArguments& a) {
  std::int64_t bytes = 0;
  for (const PieceCopy& piece : call.device.Read(a.pieces, call.grid.x / a.splits)) {
    bytes += 2 * piece.bytes;
  }
  return bytes;
}
std::int64_t Bytes(Call, const ChangeTablesArguments& a) {
  return a.n * static_cast<std::int64_t>(sizeof(TableChange) + sizeof(std::int32_t));
}
std::int64_t Bytes(Call, const RmsNormArguments& a) {
  return SumOfSizes(a.x, a.out) + a.x.cols * static_cast<std::int64_t>(sizeof(Bf16));
}
std::int64_t Bytes(Call, const QueryHeadsArguments& a) { return SumOfSizes(a.q, a.q, a.rope); }
std::int64_t Bytes(Call, const WindowKeysArguments& a) {
  return SumOfSizes(a.kv, a.kv, a.rope) + a.kv.cols * static_cast<std::int64_t>(sizeof(Bf16));
}
std::int64_t Bytes(Call, const RopeRowsArguments& a) { return SumOfSizes(a.cos, a.sin); }
std::int64_t Bytes(Call, const QuantizeRowsArguments& a) {
  const std::int64_t blocks = a.scales.rows * a.scales.cols;
  const std::int64_t codes = a.codes == nullptr ? 0 : blocks * kFp8Block;
  const std::int64_t vectors = a.numbers != nullptr  ? kNumberVectors
                               : a.digits != nullptr ? kDigitVectors
                                                     : 0;
  return SumOfSizes(a.x, a.scales) + codes + blocks * kQuadThreads * vectors * kVectorBytes;
}
std::int64_t Bytes(Call, const FewRowsArguments& a) {
  const std::int64_t vectors = a.x.numbers != nullptr ? kNumberVectors : kDigitVectors;
  const std::int64_t block =
      kQuadThreads * vectors * kVectorBytes + static_cast<std::int64_t>(sizeof(float));
  return SumOfSizes(a.w, a.out, a.exact) + a.x.rows * a.w.k / kFp8Block * block;
}
std::int64_t Bytes(Call, const LinearArguments& a) {
  return SumOfSizes(a.x, a.codes, a.scales, a.w, a.out, a.exact);
}
std::int64_t Bytes(Call, const HcChainsArguments& a) {
  return SumOfSizes(a.streams) +
         a.n_mixes * a.streams.cols * static_cast<std::int64_t>(sizeof(float)) +
         a.streams.rows * RowOfChainsBytes(a.streams.cols);
}
std::int64_t Bytes(Call, const HcPreArguments& a) {
  return SumOfSizes(a.streams, a.out, a.post, a.comb) +
         a.streams.rows * RowOfChainsBytes(a.streams.cols);
}
std::int64_t Bytes(Call, const HcPostArguments& a) {
  return SumOfSizes(a.y, a.post, a.comb, a.streams, a.streams);
}
std::int64_t Bytes(Call, const AddToStreamsArguments& a) {
  return SumOfSizes(a.x, a.streams, a.streams);
}
std::int64_t Bytes(Call, const MeanOfStreamsArguments& a) {
  return SumOfSizes(a.streams) +
         a.streams.rows * a.streams.cols / kStreams * static_cast<std::int64_t>(sizeof(Bf16));
}
std::int64_t Bytes(Call, const AddArguments& a) { return SumOfSizes(a.x, a.y, a.out); }

std::int64_t AddPositionBytes(Call, const CompressArguments& a) {
  return SumOfSizes(a.scores, a.scores) +
         a.cache.ratio * a.scores.cols * static_cast<std::int64_t>(sizeof(float));
}
// Counts the inputs of the rows that tokens complete, and these rows.
std::int64_t CompressBytes(Call call, const CompressArguments& a) {
  const std::vector<std::int32_t> positions = call.device.Read(a.batch.positions, a.scores.rows);
  const std::int64_t n_rows = std::ranges::count_if(
      positions, [&](std::int32_t position) { return (position + 1) % a.cache.ratio == 0; });
  const std::int64_t row_bytes = a.cache.packed_rows.row_bytes != 0 ? a.cache.packed_rows.row_bytes
                                                                    : a.cache.rows.blocks.row_bytes;
  constexpr auto kInput = static_cast<std::int64_t>(2 * sizeof(float));  // a value and a score
  return n_rows * (a.cache.Span() * a.width * kInput + row_bytes);
}
std::int64_t KeepBytes(Call, const CompressArguments& a) {
  return SumOfSizes(a.values, a.values, a.scores, a.scores);
}

std::int64_t Bytes(Call, const IndexQueriesArguments& a) { return SumOfSizes(a.q, a.rope, a.out); }
// Returns the number of rows that the tokens of a call score, all tokens together.
std::int64_t ScoredRows(Call call, const ChooseRowsArguments& a) {
  std::int64_t n = 0;
  if (a.ranges != nullptr) {
    for (const RowRange& range : call.device.Read(a.ranges, a.scores.rows)) n += range.n_rows();
    return n;
  }
  const std::int32_t* const first = a.batch.positions + a.first_token;
  for (const std::int32_t position : call.device.Read(first, a.scores.rows)) {
    n += CountReadRows(position, 0, a.ratio, a.chosen.cols).scored;
  }
  return n;
}
constexpr auto kScoreBytes = static_cast<std::int64_t>(sizeof(std::uint32_t));
std::int64_t IndexScoreBytes(Call call, const ChooseRowsArguments& a) {
  const std::int64_t tokens = a.scores.rows;
  return ScoredRows(call, a) * (a.rows.row_bytes + kScoreBytes) +
         SumOfSizes(a.queries.Rows(0, tokens), a.head_weights.Rows(0, tokens));
}
std::int64_t ChooseRowBytes(Call call, const ChooseRowsArguments& a) {
  const std::int64_t tokens = a.scores.rows;
  const std::int64_t chosen = a.ranges == nullptr ? SumOfSizes(a.chosen.Rows(0, tokens))
                                                  : SumOfSizes(a.best.Rows(0, tokens));
  return ScoredRows(call, a) * kScoreBytes + chosen;
}

// Returns the number of keys of a call's rows, all rows together.
std::int64_t AttendedKeys(Call call, const AttentionArguments& a) {
  std::int64_t keys = 0;
  const std::int32_t* const first = a.batch.positions + a.first_row;
  for (const std::int32_t position : call.device.Read(first, a.n_rows)) {
    // With blocks of drafts, the few own keys of a row's block are ignored.
    const ReadRows read = CountReadRows(position, a.sliding_window, a.ratio, a.selected.cols);
    keys += read.window + read.compressed;
  }
  return keys;
}
// Counts keys, and a score or a probability for each head of a key.
std::int64_t AttentionBytes(Call call, const AttentionArguments& a, std::int64_t key_bytes,
                            std::int64_t numbers) {
  return AttendedKeys(call, a) *
         (key_bytes + numbers * a.heads * static_cast<std::int64_t>(sizeof(float)));
}
std::int64_t ScoreBytes(Call call, const AttentionArguments& a) {
  return AttentionBytes(call, a, KeyBytes(a.window.rows.layout), 1) +
         SumOfSizes(a.q.Rows(0, a.n_rows)) +
         a.n_rows * a.selected.cols * static_cast<std::int64_t>(sizeof(std::int32_t));
}
std::int64_t WeightBytes(Call call, const AttentionArguments& a) {
  return AttentionBytes(call, a, 0, 2);
}
std::int64_t ValueBytes(Call call, const AttentionArguments& a) {
  return AttentionBytes(call, a, KeyBytes(a.window.rows.layout), 1) +
         SumOfSizes(a.rope.cos.Rows(0, a.n_rows), a.rope.sin.Rows(0, a.n_rows),
                    a.out.Rows(0, a.n_rows));
}
std::int64_t Bytes(Call, const AppendWindowArguments& a) {
  return SumOfSizes(a.keys) + a.keys.rows * KeyBytes(a.cache.rows.layout);
}
std::int64_t Bytes(Call, const CopyRowsArguments& a) { return SumOfSizes(a.out, a.out); }

std::int64_t Bytes(Call, const RouteArguments& a) {
  return SumOfSizes(a.logits, a.ids, a.weights) +
         a.logits.cols * static_cast<std::int64_t>(sizeof(float));
}
std::int64_t Bytes(Call, const RouteByTokenArguments& a) {
  return SumOfSizes(a.logits, a.ids, a.weights) +
         a.ids.rows * a.table.cols * static_cast<std::int64_t>(sizeof(std::int64_t));
}
// Counts each chosen expert once.
template <class SizeOfExpert>
std::int64_t ChosenExpertBytes(Call call, const ExpertArguments& a, const SizeOfExpert& size) {
  const std::vector<std::int32_t> ids = call.device.Read(a.ids.data, a.ids.rows * a.ids.cols);
  const std::vector<ExpertWeights> experts = call.device.Read(a.experts, a.n_experts);
  std::int64_t bytes = 0;
  for (const std::int32_t id : std::set(ids.begin(), ids.end())) {
    if (id >= 0 && id < std::ssize(experts)) bytes += size(experts[static_cast<std::size_t>(id)]);
  }
  return bytes;
}
std::int64_t ExpertHiddenBytes(Call call, const ExpertArguments& a) {
  return ChosenExpertBytes(call, a, [](const ExpertWeights& e) { return SumOfSizes(e.w1, e.w3); }) +
         SumOfSizes(a.codes, a.scales, a.hidden) + (a.codes.data == nullptr ? SumOfSizes(a.x) : 0);
}
std::int64_t ExpertOutputBytes(Call call, const ExpertArguments& a) {
  return ChosenExpertBytes(call, a, [](const ExpertWeights& e) { return SumOfSizes(e.w2); }) +
         SumOfSizes(a.codes, a.scales, a.rows) +
         (a.codes.data == nullptr ? SumOfSizes(a.hidden) : 0);
}
std::int64_t Bytes(Call, const CombineArguments& a) { return SumOfSizes(a.rows, a.shared, a.out); }

std::int64_t Bytes(Call, const ReadMemoryArguments& a) {
  return a.n * static_cast<std::int64_t>(sizeof(MemoryVector));
}
std::int64_t Bytes(Call, const CopyMemoryArguments& a) {
  return 2 * a.n * static_cast<std::int64_t>(sizeof(MemoryVector));
}

// Counts from the struct of the kernel, at any address.
template <class Arguments, std::int64_t (*kCount)(Call, const Arguments&) = Bytes>
std::int64_t Count(Call call, const std::byte* bytes) {
  Arguments arguments;
  std::memcpy(static_cast<void*>(&arguments), bytes, sizeof(arguments));
  return kCount(call, arguments);
}

constexpr struct {
  GpuKernel kernel;
  std::int64_t (*count)(Call, const std::byte*);
} kCounters[] = {
    {GpuKernel::kEmbed, Count<EmbedArguments>},
    {GpuKernel::kSwiGlu, Count<SwiGluArguments>},
    {GpuKernel::kCopyPieces, Count<CopyPiecesArguments>},
    {GpuKernel::kChangeTables, Count<ChangeTablesArguments>},
    {GpuKernel::kRmsNorm, Count<RmsNormArguments>},
    {GpuKernel::kQueryHeads, Count<QueryHeadsArguments>},
    {GpuKernel::kWindowKeys, Count<WindowKeysArguments>},
    {GpuKernel::kFillRopeRows, Count<RopeRowsArguments>},
    {GpuKernel::kQuantizeRows, Count<QuantizeRowsArguments>},
    {GpuKernel::kLinearFp8Row, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp8Rows2, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp8Rows4, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp8Rows8, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp4Row, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp4Rows2, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp4Rows4, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp4Rows8, Count<FewRowsArguments>},
    {GpuKernel::kLinearFp8, Count<LinearArguments>},
    {GpuKernel::kLinearFp4, Count<LinearArguments>},
    {GpuKernel::kLinearPlain, Count<LinearArguments>},
    {GpuKernel::kLinearByBlocks, Count<LinearArguments>},
    {GpuKernel::kHcChains, Count<HcChainsArguments>},
    {GpuKernel::kHcPre, Count<HcPreArguments>},
    {GpuKernel::kHcPost, Count<HcPostArguments>},
    {GpuKernel::kAddToStreams, Count<AddToStreamsArguments>},
    {GpuKernel::kMeanOfStreams, Count<MeanOfStreamsArguments>},
    {GpuKernel::kAdd, Count<AddArguments>},
    {GpuKernel::kAddPositionScores, Count<CompressArguments, AddPositionBytes>},
    {GpuKernel::kCompressRows, Count<CompressArguments, CompressBytes>},
    {GpuKernel::kKeepInputs, Count<CompressArguments, KeepBytes>},
    {GpuKernel::kIndexQueries, Count<IndexQueriesArguments>},
    {GpuKernel::kIndexScores, Count<ChooseRowsArguments, IndexScoreBytes>},
    {GpuKernel::kChooseRows, Count<ChooseRowsArguments, ChooseRowBytes>},
    {GpuKernel::kAttentionScores, Count<AttentionArguments, ScoreBytes>},
    {GpuKernel::kWideAttentionScores, Count<AttentionArguments, ScoreBytes>},
    {GpuKernel::kBlockAttentionScores, Count<AttentionArguments, ScoreBytes>},
    {GpuKernel::kAttentionWeights, Count<AttentionArguments, WeightBytes>},
    {GpuKernel::kAttentionValues, Count<AttentionArguments, ValueBytes>},
    {GpuKernel::kWideAttentionValues, Count<AttentionArguments, ValueBytes>},
    {GpuKernel::kAppendWindow, Count<AppendWindowArguments>},
    {GpuKernel::kCopyRows, Count<CopyRowsArguments>},
    {GpuKernel::kRoute, Count<RouteArguments>},
    {GpuKernel::kRouteByToken, Count<RouteByTokenArguments>},
    {GpuKernel::kExpertHidden, Count<ExpertArguments, ExpertHiddenBytes>},
    {GpuKernel::kExpertOutput, Count<ExpertArguments, ExpertOutputBytes>},
    {GpuKernel::kCombineExperts, Count<CombineArguments>},
    {GpuKernel::kReadMemory, Count<ReadMemoryArguments>},
    {GpuKernel::kCopyMemory, Count<CopyMemoryArguments>},
};

}  // namespace
}  // namespace gpu

KernelBytes BytesOfKernel(GpuDriver& driver, GpuKernel kernel, const GpuGrid& grid,
                          const std::byte* arguments) {
  gpu::DeviceReader device(driver);
  std::optional<double> bytes;
  for (const auto& counter : gpu::kCounters) {
    if (counter.kernel != kernel) continue;
    bytes = static_cast<double>(counter.count({device, grid}, arguments));
  }
  return {bytes, device.has_waited()};
}

}  // namespace fathom::kernels
