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

namespace fathom {
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
  return SumOfSizes(a.x, a.codes, a.scales);
}
std::int64_t Bytes(Call, const LinearArguments& a) {
  return SumOfSizes(a.x, a.codes, a.scales, a.w, a.out, a.exact);
}
std::int64_t Bytes(Call, const HcPreArguments& a) {
  const std::int64_t rows_of_fn = a.post.data == nullptr ? kStreams : kHcGates;
  return SumOfSizes(a.streams, a.out, a.post, a.comb) +
         rows_of_fn * a.streams.cols * static_cast<std::int64_t>(sizeof(float));
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
    const std::int64_t visible = VisibleRows(position, a.ratio);
    n += visible > a.chosen.cols ? visible : 0;
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

std::int64_t Bytes(Call call, const AttentionArguments& a) {
  std::int64_t keys = 0;
  for (const std::int32_t position : call.device.Read(a.batch.positions, a.out.rows)) {
    const std::int64_t visible = VisibleRows(position, a.ratio);
    // With blocks of drafts, the few own keys of a row's block are ignored.
    keys += std::min<std::int64_t>(position + 1, a.sliding_window) +
            (a.selected.cols > 0 ? std::min(visible, a.selected.cols) : visible);
  }
  return keys * KeyBytes(a.window.rows.layout) + SumOfSizes(a.q, a.rope, a.selected, a.out);
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

// Copies the struct from any address.
template <class Arguments>
Arguments At(const std::byte* bytes) {
  Arguments arguments;
  std::memcpy(static_cast<void*>(&arguments), bytes, sizeof(arguments));
  return arguments;
}

std::optional<double> Count(Call call, GpuKernel kernel, const std::byte* bytes) {
  const auto of = [&]<class Arguments>(std::int64_t (*count)(Call, const Arguments&)) {
    return static_cast<double>(count(call, At<Arguments>(bytes)));
  };
  switch (kernel) {
    case GpuKernel::kEmbed:
      return of.operator()<EmbedArguments>(Bytes);
    case GpuKernel::kSwiGlu:
      return of.operator()<SwiGluArguments>(Bytes);
    case GpuKernel::kCopyPieces:
      return of.operator()<CopyPiecesArguments>(Bytes);
    case GpuKernel::kChangeTables:
      return of.operator()<ChangeTablesArguments>(Bytes);
    case GpuKernel::kRmsNorm:
      return of.operator()<RmsNormArguments>(Bytes);
    case GpuKernel::kQueryHeads:
      return of.operator()<QueryHeadsArguments>(Bytes);
    case GpuKernel::kWindowKeys:
      return of.operator()<WindowKeysArguments>(Bytes);
    case GpuKernel::kFillRopeRows:
      return of.operator()<RopeRowsArguments>(Bytes);
    case GpuKernel::kQuantizeRows:
      return of.operator()<QuantizeRowsArguments>(Bytes);
    case GpuKernel::kLinearFp8:
    case GpuKernel::kLinearFp4:
    case GpuKernel::kLinearPlain:
    case GpuKernel::kLinearByBlocks:
      return of.operator()<LinearArguments>(Bytes);
    case GpuKernel::kHcPre:
      return of.operator()<HcPreArguments>(Bytes);
    case GpuKernel::kHcPost:
      return of.operator()<HcPostArguments>(Bytes);
    case GpuKernel::kAddToStreams:
      return of.operator()<AddToStreamsArguments>(Bytes);
    case GpuKernel::kMeanOfStreams:
      return of.operator()<MeanOfStreamsArguments>(Bytes);
    case GpuKernel::kAdd:
      return of.operator()<AddArguments>(Bytes);
    case GpuKernel::kAddPositionScores:
      return of(AddPositionBytes);
    case GpuKernel::kCompressRows:
      return of(CompressBytes);
    case GpuKernel::kKeepInputs:
      return of(KeepBytes);
    case GpuKernel::kIndexQueries:
      return of.operator()<IndexQueriesArguments>(Bytes);
    case GpuKernel::kIndexScores:
      return of(IndexScoreBytes);
    case GpuKernel::kChooseRows:
      return of(ChooseRowBytes);
    case GpuKernel::kSparseAttention:
    case GpuKernel::kBlockAttention:
      return of.operator()<AttentionArguments>(Bytes);
    case GpuKernel::kAppendWindow:
      return of.operator()<AppendWindowArguments>(Bytes);
    case GpuKernel::kCopyRows:
      return of.operator()<CopyRowsArguments>(Bytes);
    case GpuKernel::kRoute:
      return of.operator()<RouteArguments>(Bytes);
    case GpuKernel::kRouteByToken:
      return of.operator()<RouteByTokenArguments>(Bytes);
    case GpuKernel::kExpertHidden:
      return of(ExpertHiddenBytes);
    case GpuKernel::kExpertOutput:
      return of(ExpertOutputBytes);
    case GpuKernel::kCombineExperts:
      return of.operator()<CombineArguments>(Bytes);
    case GpuKernel::kReadMemory:
      return of.operator()<ReadMemoryArguments>(Bytes);
    case GpuKernel::kCopyMemory:
      return of.operator()<CopyMemoryArguments>(Bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace
}  // namespace gpu

KernelBytes BytesOfKernel(GpuDriver& driver, GpuKernel kernel, const GpuGrid& grid,
                          const std::byte* arguments) {
  gpu::DeviceReader device(driver);
  const std::optional<double> bytes = gpu::Count({device, grid}, kernel, arguments);
  return {bytes, device.has_waited()};
}

}  // namespace fathom
