// Dense operations and hyper-connections.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/device/elementwise.h"
#include "kernels/gpu/device/hyper_connection.h"
#include "kernels/gpu/device/linear.h"
#include "kernels/gpu/device/norm.h"
#include "kernels/gpu/gpu_backend.h"

namespace fathom::kernels {

struct GpuBackend::DenseOperations {
  GpuBackend& self;

  void Compute(const FillRopeRowsOp& op) {
    self.LaunchOnNumbers(GpuKernel::kFillRopeRows, op.cos.rows * op.cos.cols,
                         gpu::RopeRowsArguments{.positions = self.batch_.View(op.batch).positions,
                                                .frequencies = op.frequencies.data(),
                                                .cos = op.cos,
                                                .sin = op.sin});
  }

  void Compute(const EmbedOp& op) {
    if (!self.ledger_.Has(op.table.data)) {
      return EmbedFromHost(op.batch, op.table, op.out);
    }
    self.LaunchOnNumbers(GpuKernel::kEmbed, op.out.rows * op.out.cols,
                         gpu::EmbedArguments{.tokens = self.batch_.View(op.batch).tokens,
                                             .table = op.table,
                                             .out = op.out,
                                             .fault = self.fault()});
  }

  // For a table in memory of the host.
  void EmbedFromHost(const BatchView& batch, Matrix<const Bf16> table, Matrix<Bf16> out) {
    self.host_rows_.clear();
    for (std::int64_t row = 0; row < out.rows; ++row) {
      Token token = batch.tokens[static_cast<std::size_t>(row)];
      if (token < 0 || token >= table.rows) {
        self.fault_word_.Set(Fault::kTokenOutsideVocabulary, row);
        token = 0;
      }
      const std::span<const Bf16> numbers = table.RowSpan(token);
      self.host_rows_.insert(self.host_rows_.end(), numbers.begin(), numbers.end());
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const Bf16>(self.host_rows_));
    Check(self.embedded_ != nullptr && std::ssize(bytes) <= self.embedded_->bytes(),
          "Embed: more than Reserve announced, or Reserve was not called");
    self.driver_->Upload(self.embedded_->address(), bytes);
    self.LaunchOnNumbers(
        GpuKernel::kEmbed, out.rows * out.cols,
        gpu::EmbedArguments{.table = {reinterpret_cast<const Bf16*>(self.embedded_->address()),
                                      out.rows, table.cols},
                            .out = out,
                            .fault = self.fault()});
  }

  void Compute(const RmsNormOp& op) {
    self.Launch(
        GpuKernel::kRmsNorm, op.x.rows,
        gpu::RmsNormArguments{.x = op.x, .weight = op.weight.data(), .eps = op.eps, .out = op.out});
  }

  void LaunchLinear(GpuKernel kernel, const gpu::LinearArguments& arguments) {
    constexpr std::int64_t kRowsOfBlock = kMaxBlockThreads / kGroupThreads;
    const std::int64_t tiles = DivideUp(arguments.w.n, kRowsOfBlock);
    self.Launch(kernel, tiles * DivideUp(arguments.n_rows, gpu::kProductTokens), arguments);
  }

  // Launches the product of at most kFewRows rows with a quantised weight. Either out or exact has
  // data.
  void MultiplyFew(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out, Matrix<float> exact) {
    using enum GpuKernel;
    constexpr GpuKernel kFp8[] = {kLinearFp8Row, kLinearFp8Rows2, kLinearFp8Rows4, kLinearFp8Rows8};
    constexpr GpuKernel kFp4[] = {kLinearFp4Row, kLinearFp4Rows2, kLinearFp4Rows4, kLinearFp4Rows8};
    const auto size = static_cast<std::size_t>(std::bit_width(std::uint64_t(x.rows - 1)));
    const int shift = self.ProductShift(w.n, x.rows);
    self.Launch((w.format == WeightFormat::kFp8 ? kFp8 : kFp4)[size],
                DivideUp(w.n, std::int64_t{1} << shift),
                gpu::FewRowsArguments{.x = self.QuantizeFew(x, w.format),
                                      .w = w,
                                      .shift = shift,
                                      .out = out,
                                      .exact = exact});
  }

  // Either out or exact has data.
  void Multiply(Matrix<const Bf16> x, const Weight& w, Matrix<Bf16> out, Matrix<float> exact) {
    if (!w.IsQuantized()) {
      return LaunchLinear(GpuKernel::kLinearPlain,
                          {.x = x, .w = w, .n_rows = x.rows, .out = out, .exact = exact});
    }
    if (x.rows == 0) return;
    if (x.rows <= gpu::kFewRows && gpu::HasVectors(w)) return MultiplyFew(x, w, out, exact);
    const std::int64_t tile = self.RowsOfCodes(w.k);
    for (std::int64_t first = 0; first < x.rows; first += tile) {
      const std::int64_t n = std::min(tile, x.rows - first);
      self.Quantize(x.Rows(first, n));
      LaunchLinear(w.format == WeightFormat::kFp8 ? GpuKernel::kLinearFp8 : GpuKernel::kLinearFp4,
                   {.codes = self.Codes(n, x.cols),
                    .scales = self.CodeScales(n, x.cols),
                    .w = w,
                    .n_rows = n,
                    .out = out.data == nullptr ? out : out.Rows(first, n),
                    .exact = exact.data == nullptr ? exact : exact.Rows(first, n)});
    }
  }

  void Compute(const LinearOp<Bf16>& op) { Multiply(op.x, op.w, op.out, {}); }

  void Compute(const LinearOp<float>& op) { Multiply(op.x, op.w, {}, op.out); }

  void Compute(const GroupedLinearOp& op) {
    const bool by_blocks = op.w.format != WeightFormat::kF32 && op.w.k % kFp8Block == 0;
    LaunchLinear(by_blocks ? GpuKernel::kLinearByBlocks : GpuKernel::kLinearPlain,
                 {.x = op.x, .w = op.w, .groups = op.groups, .n_rows = op.x.rows, .out = op.out});
  }

  void Compute(const SwiGluOp& op) {
    const std::int64_t n = op.out.rows * op.out.cols;
    self.LaunchOnNumbers(
        GpuKernel::kSwiGlu, n,
        gpu::SwiGluArguments{
            .gate = op.gate.data, .up = op.up.data, .clamp = op.clamp, .out = op.out.data, .n = n});
  }

  void LaunchHcPre(Matrix<const Bf16> streams, const HcWeights& w, const HcOptions& options,
                   Matrix<Bf16> out, const HcMix& mix) {
    const bool has_mix = mix.post.data != nullptr;
    const std::int64_t n_mixes = has_mix ? kHcGates : kStreams;
    const std::int64_t n_chains = gpu::MixChains(streams.cols);
    const std::int64_t row_bytes = gpu::RowOfChainsBytes(streams.cols);
    const std::int64_t tile = self.chains_ == nullptr ? 0 : self.chains_->bytes() / row_bytes;
    Check(tile > 0, "HcPre: wider streams than Reserve announced, or Reserve was not called");
    auto* const chains = reinterpret_cast<float*>(self.chains_->address());
    for (std::int64_t first = 0; first < out.rows; first += tile) {
      const std::int64_t n = std::min(tile, out.rows - first);
      self.Launch(
          GpuKernel::kHcChains, n_chains * DivideUp(n, gpu::kChainRows),
          gpu::HcChainsArguments{
              .streams = streams.Rows(first, n), .fn = w.fn, .n_mixes = n_mixes, .chains = chains},
          gpu::ChainTileBytes(n_mixes, n));
      self.Launch(GpuKernel::kHcPre, n * gpu::PreBlocks(out.cols, has_mix),
                  gpu::HcPreArguments{.streams = streams.Rows(first, n),
                                      .chains = chains,
                                      .w = w,
                                      .sinkhorn_iterations = options.sinkhorn_iterations,
                                      .eps = options.eps,
                                      .norm_eps = options.norm_eps,
                                      .out = out.Rows(first, n),
                                      .post = has_mix ? mix.post.Rows(first, n) : mix.post,
                                      .comb = has_mix ? mix.comb.Rows(first, n) : mix.comb},
                  gpu::MixSumBytes(n_chains));
    }
  }

  void Compute(const HcPreOp& op) { LaunchHcPre(op.streams, op.w, op.options, op.out, op.mix); }

  void Compute(const HcHeadOp& op) { LaunchHcPre(op.streams, op.w, op.options, op.out, {}); }

  void Compute(const HcPostOp& op) {
    self.LaunchOnNumbers(
        GpuKernel::kHcPost, op.y.rows * DivideUp(op.y.cols, gpu::kPostNumbers),
        gpu::HcPostArguments{
            .y = op.y, .post = op.mix.post, .comb = op.mix.comb, .streams = op.streams});
  }

  void Compute(const AddToStreamsOp& op) {
    self.LaunchOnNumbers(GpuKernel::kAddToStreams, op.streams.rows * op.streams.cols,
                         gpu::AddToStreamsArguments{.x = op.x, .streams = op.streams});
  }

  void Compute(const MeanOfStreamsOp& op) {
    self.LaunchOnNumbers(
        GpuKernel::kMeanOfStreams, op.streams.rows * (op.streams.cols / kStreams),
        gpu::MeanOfStreamsArguments{
            .streams = op.streams, .first_column = op.first_column, .out = op.out});
  }

  void Compute(const AddOp& op) {
    self.LaunchOnNumbers(GpuKernel::kAdd, op.out.rows * op.out.cols,
                         gpu::AddArguments{.x = op.x, .y = op.y, .out = op.out});
  }
};

bool GpuBackend::ComputeDense(const Operation& operation) {
  return ComputeBy(DenseOperations{*this}, operation);
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
  LaunchOnGroups(
      GpuKernel::kQuantizeRows, x.rows * (x.cols / kFp8Block),
      gpu::QuantizeRowsArguments{
          .x = x, .codes = Codes(x.rows, x.cols).data, .scales = CodeScales(x.rows, x.cols)});
}

gpu::LaneRows GpuBackend::QuantizeFew(Matrix<const Bf16> x, WeightFormat format) {
  Check(lane_rows_ != nullptr && GpuLaneRowBytes(x.rows, x.cols) <= lane_rows_->bytes(),
        "more inputs than Reserve announced, or Reserve was not called");
  std::byte* const address = lane_rows_->address();
  gpu::QuantizeRowsArguments arguments = {.x = x, .scales = CodeScales(x.rows, x.cols)};
  if (format == WeightFormat::kFp8) {
    arguments.numbers = reinterpret_cast<gpu::FourFloats*>(address);
  } else {
    arguments.digits = reinterpret_cast<gpu::FourWords*>(address);
  }
  LaunchOnGroups(GpuKernel::kQuantizeRows, x.rows * (x.cols / kFp8Block), arguments);
  return {.numbers = arguments.numbers,
          .digits = arguments.digits,
          .scales = arguments.scales.data,
          .rows = x.rows};
}

int GpuBackend::ProductShift(std::int64_t n, std::int64_t rows) const {
  int shift = gpu::MostProductShift(rows);
  while (shift > gpu::kLeastProductShift &&
         DivideUp(n, std::int64_t{1} << shift) < 2 * device().n_multiprocessors) {
    --shift;
  }
  return shift;
}

}  // namespace fathom::kernels
