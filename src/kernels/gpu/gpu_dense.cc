// Dense operations and hyper-connections.
#include <algorithm>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/device/hyper_connection.h"
#include "kernels/gpu/device/linear.h"
#include "kernels/gpu/device/norm.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/shape_checks.h"

namespace fathom {

void GpuBackend::FillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                              Matrix<float> cos, Matrix<float> sin) {
  CheckFillRopeRows(batch, frequencies, cos, sin);
  LaunchOnNumbers(GpuKernel::kFillRopeRows, cos.rows * cos.cols,
                  gpu::RopeRowsArguments{.positions = batch_.View(batch).positions,
                                         .frequencies = frequencies.data(),
                                         .cos = cos,
                                         .sin = sin});
}

void GpuBackend::Embed(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
  CheckEmbed(batch, table, out);
  if (!ledger_.Has(table.data)) {
    return EmbedFromHost(batch, table, out);
  }
  LaunchOnNumbers(
      GpuKernel::kEmbed, out.rows * out.cols,
      gpu::EmbedArguments{
          .tokens = batch_.View(batch).tokens, .table = table, .out = out, .fault = fault()});
}

void GpuBackend::EmbedFromHost(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
  host_rows_.clear();
  for (std::int64_t row = 0; row < out.rows; ++row) {
    Token token = batch.tokens[static_cast<std::size_t>(row)];
    if (token < 0 || token >= table.rows) {
      fault_word_.Set(Fault::kTokenOutsideVocabulary, row);
      token = 0;
    }
    const std::span<const Bf16> numbers = table.RowSpan(token);
    host_rows_.insert(host_rows_.end(), numbers.begin(), numbers.end());
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const Bf16>(host_rows_));
  Check(embedded_ != nullptr && std::ssize(bytes) <= embedded_->bytes(),
        "Embed: more than Reserve announced, or Reserve was not called");
  driver_->Upload(embedded_->address(), bytes);
  LaunchOnNumbers(GpuKernel::kEmbed, out.rows * out.cols,
                  gpu::EmbedArguments{.table = {reinterpret_cast<const Bf16*>(embedded_->address()),
                                                out.rows, table.cols},
                                      .out = out,
                                      .fault = fault()});
}

void GpuBackend::RmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, float eps,
                         Matrix<Bf16> out) {
  CheckRmsNorm(x, weight, out);
  Launch(GpuKernel::kRmsNorm, x.rows,
         gpu::RmsNormArguments{.x = x, .weight = weight.data(), .eps = eps, .out = out});
}

Matrix<std::uint8_t> GpuBackend::Codes(std::int64_t rows, std::int64_t cols) const {
  return {reinterpret_cast<std::uint8_t*>(codes_->address()), rows, cols};
}

Matrix<float> GpuBackend::CodeScales(std::int64_t rows, std::int64_t cols) const {
  return {reinterpret_cast<float*>(scales_->address()), rows, cols / kFp8Block};
}

std::int64_t GpuBackend::RowsOfCodes(std::int64_t cols) const {
  const std::int64_t rows =
      codes_ == nullptr ? 0 : codes_->bytes() / std::max<std::int64_t>(cols, 1);
  Check(rows > 0, "more inputs than Reserve announced, or Reserve was not called");
  return rows;
}

void GpuBackend::Quantize(Matrix<const Bf16> x) {
  LaunchOnGroups(GpuKernel::kQuantizeRows, x.rows * (x.cols / kFp8Block),
                 gpu::QuantizeRowsArguments{
                     .x = x, .codes = Codes(x.rows, x.cols), .scales = CodeScales(x.rows, x.cols)});
}

void GpuBackend::LaunchLinear(GpuKernel kernel, const gpu::LinearArguments& arguments) {
  constexpr std::int64_t kRowsOfBlock = kMaxBlockThreads / kGroupThreads;
  const std::int64_t tiles = DivideUp(arguments.w.n, kRowsOfBlock);
  Launch(kernel, tiles * DivideUp(arguments.n_rows, gpu::kProductTokens), arguments);
}

void GpuBackend::Multiply(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out,
                          Matrix<float> exact) {
  if (!w.IsQuantized()) {
    return LaunchLinear(GpuKernel::kLinearPlain,
                        {.x = x, .w = w, .n_rows = x.rows, .out = out, .exact = exact});
  }
  const std::int64_t tile = RowsOfCodes(w.k);
  for (std::int64_t first = 0; first < x.rows; first += tile) {
    const std::int64_t n = std::min(tile, x.rows - first);
    Quantize(x.Rows(first, n));
    LaunchLinear(w.format == WeightFormat::kFp8 ? GpuKernel::kLinearFp8 : GpuKernel::kLinearFp4,
                 {.codes = Codes(n, x.cols),
                  .scales = CodeScales(n, x.cols),
                  .w = w,
                  .n_rows = n,
                  .out = out.data == nullptr ? out : out.Rows(first, n),
                  .exact = exact.data == nullptr ? exact : exact.Rows(first, n)});
  }
}

void GpuBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out) {
  CheckLinear(x, w, out.rows, out.cols);
  Multiply(x, w, out, {});
}

void GpuBackend::Linear(Matrix<const Bf16> x, const Weight& w, Matrix<float> out) {
  CheckLinear(x, w, out.rows, out.cols);
  Multiply(x, w, {}, out);
}

void GpuBackend::GroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                               Matrix<Bf16> out) {
  CheckGroupedLinear(x, w, groups, out);
  const bool by_blocks = w.format != WeightFormat::kF32 && w.k % kFp8Block == 0;
  LaunchLinear(by_blocks ? GpuKernel::kLinearByBlocks : GpuKernel::kLinearPlain,
               {.x = x, .w = w, .groups = groups, .n_rows = x.rows, .out = out});
}

void GpuBackend::SwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, float clamp,
                        Matrix<Bf16> out) {
  CheckSwiGlu(gate, up, out);
  const std::int64_t n = out.rows * out.cols;
  LaunchOnNumbers(GpuKernel::kSwiGlu, n,
                  gpu::SwiGluArguments{
                      .gate = gate.data, .up = up.data, .clamp = clamp, .out = out.data, .n = n});
}

void GpuBackend::LaunchHcPre(Matrix<const Bf16> streams, const HcWeights& w,
                             const HcOptions& options, Matrix<Bf16> out, const HcMix& mix) {
  const std::int64_t rows_of_fn = mix.post.data == nullptr ? kStreams : kHcGates;
  const std::int64_t chains = DivideUp(streams.cols, gpu::kMixChain) * (rows_of_fn + 1);
  Launch(GpuKernel::kHcPre, out.rows,
         gpu::HcPreArguments{.streams = streams,
                             .w = w,
                             .sinkhorn_iterations = options.sinkhorn_iterations,
                             .eps = options.eps,
                             .norm_eps = options.norm_eps,
                             .out = out,
                             .post = mix.post,
                             .comb = mix.comb},
         chains * static_cast<std::int64_t>(sizeof(float)));
}

void GpuBackend::HcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                       Matrix<Bf16> out, HcMix mix) {
  CheckHcPre(streams, options, out, mix);
  LaunchHcPre(streams, w, options, out, mix);
}

void GpuBackend::HcHead(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                        Matrix<Bf16> out) {
  CheckHcHead(streams, out);
  LaunchHcPre(streams, w, options, out, {});
}

void GpuBackend::HcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<Bf16> streams) {
  CheckHcPost(y, mix, streams);
  LaunchOnNumbers(
      GpuKernel::kHcPost, y.rows * y.cols,
      gpu::HcPostArguments{.y = y, .post = mix.post, .comb = mix.comb, .streams = streams});
}

void GpuBackend::AddToStreams(Matrix<const Bf16> x, Matrix<Bf16> streams) {
  CheckAddToStreams(x, streams);
  LaunchOnNumbers(GpuKernel::kAddToStreams, streams.rows * streams.cols,
                  gpu::AddToStreamsArguments{.x = x, .streams = streams});
}

void GpuBackend::MeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                               Matrix<Bf16> out) {
  CheckMeanOfStreams(streams, first_column, out);
  LaunchOnNumbers(
      GpuKernel::kMeanOfStreams, streams.rows * (streams.cols / kStreams),
      gpu::MeanOfStreamsArguments{.streams = streams, .first_column = first_column, .out = out});
}

void GpuBackend::Add(Matrix<const float> x, Matrix<const float> y, Matrix<float> out) {
  CheckAdd(x, y, out);
  LaunchOnNumbers(GpuKernel::kAdd, out.rows * out.cols,
                  gpu::AddArguments{.x = x, .y = y, .out = out});
}

}  // namespace fathom
