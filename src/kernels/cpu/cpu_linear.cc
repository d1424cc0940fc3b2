// Dense products: prepares activations and divides the columns among threads.
#include <algorithm>
#include <array>
#include <type_traits>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace fathom::kernels {
namespace {

// Returns the multiply-adds of one output column, including the cost of expanding its weights.
std::int64_t ColumnWork(const cpu::Product& product) { return product.k * (product.t + 2); }

// The columns that are multiplied together: a piece of a product does not end inside such a group.
constexpr std::int64_t kColumnGroup = 16;

bool IsFp8(cpu::ProductFormat format) {
  return format == cpu::ProductFormat::kFp8 || format == cpu::ProductFormat::kFp8AsBf16;
}

// Returns the first column of the piece that begins at `begin`, in units of work.
std::int64_t FirstColumn(std::int64_t begin, std::int64_t column_work, std::int64_t n) {
  const std::int64_t group_work = kColumnGroup * column_work;
  return begin <= 0 ? 0 : std::min(n, (begin + group_work - 1) / group_work * kColumnGroup);
}

// Activations are quantised for FP8 and FP4 weights, or never.
cpu::ProductFormat ChooseFormat(const Weight& w, bool quantize) {
  switch (w.format) {
    case WeightFormat::kF32:
      return cpu::ProductFormat::kF32;
    case WeightFormat::kBf16:
      return quantize || w.k % kFp8Block != 0 ? cpu::ProductFormat::kBf16
                                              : cpu::ProductFormat::kBf16ByBlocks;
    case WeightFormat::kFp8:
      return quantize ? cpu::ProductFormat::kFp8 : cpu::ProductFormat::kFp8AsBf16;
    case WeightFormat::kFp4:
      Check(quantize, "FP4 weights need quantised activations");
      return cpu::ProductFormat::kFp4;
  }
  return cpu::ProductFormat::kBf16;
}

}  // namespace

cpu::Product MakeProduct(const Weight& w, bool quantize) {
  CheckWeight(w);
  return {.format = ChooseFormat(w, quantize),
          .e8m0_scales = w.format != WeightFormat::kFp8 || w.scale_format == ScaleFormat::kE8m0,
          .weights = reinterpret_cast<const std::uint8_t*>(w.data),
          .scales = reinterpret_cast<const std::uint8_t*>(w.scales),
          .row_bytes = w.RowBytes(),
          .scale_columns = w.ScaleColumns(),
          .n = w.n,
          .k = w.k,
          .k_parts = w.k_parts};
}

struct CpuBackend::LinearOperations {
  CpuBackend& self;

  template <class Out>
  void MultiplyDense(Matrix<const Bf16> x, const Weight& w, Matrix<Out> out) {
    cpu::Product product = MakeProduct(w, /*quantize=*/true);
    product.x = self.scratch_.activations.data();
    product.x_stride = cpu::PreparedStride(w.k);
    product.x_scales = self.scratch_.scales.data();
    product.scale_stride = w.k / kFp8Block;
    product.out_stride = out.cols;
    const std::int64_t tile = self.TileRows(w.k);
    for (std::int64_t first = 0; first < x.rows; first += tile) {
      product.t = std::min(tile, x.rows - first);
      self.Prepare(product.format, x.Row(first), x.cols, product.t, w.k,
                   self.scratch_.activations.data(), self.scratch_.scales.data());
      if constexpr (std::is_same_v<Out, Bf16>) {
        product.out_bf16 = Bits(out.Row(first));
      } else {
        product.out_float = out.Row(first);
      }
      self.Multiply({&product, 1});
    }
  }

  void Compute(const LinearOp<Bf16>& op) { MultiplyDense(op.x, op.w, op.out); }

  void Compute(const LinearOp<float>& op) { MultiplyDense(op.x, op.w, op.out); }

  // Prepares every (row, group) as a row of its own; the groups of a chunk are products that run as
  // one loop. A chunk has only so many groups that all rows fit, so that weights are read once.
  void Compute(const GroupedLinearOp& op) {
    constexpr std::int64_t kMaxChunk = 16;
    const std::int64_t group_rows = op.w.n / op.groups;
    const std::int64_t stride = cpu::PreparedStride(op.w.k);
    const std::int64_t scale_stride = op.w.k / kFp8Block;
    const std::int64_t fitting = self.TileRows(op.w.k);
    const std::int64_t chunk = std::clamp<std::int64_t>(
        fitting / std::max<std::int64_t>(op.x.rows, 1), 1, std::min(op.groups, kMaxChunk));
    const std::int64_t tile = fitting / chunk;
    for (std::int64_t first = 0; first < op.x.rows; first += tile) {
      const std::int64_t t = std::min(tile, op.x.rows - first);
      for (std::int64_t group = 0; group < op.groups; group += chunk) {
        const std::int64_t n_groups = std::min(chunk, op.groups - group);
        std::array<cpu::Product, kMaxChunk> products;
        for (std::int64_t i = 0; i < n_groups; ++i) {
          cpu::Product& product = products[static_cast<std::size_t>(i)];
          product = MakeProduct(op.w, /*quantize=*/false);
          float* prepared = self.scratch_.activations.data() + i * t * stride;
          float* scales = self.scratch_.scales.data() + i * t * scale_stride;
          self.Prepare(product.format, op.x.Row(first) + (group + i) * op.w.k, op.x.cols, t, op.w.k,
                       prepared, scales);
          product.x = prepared;
          product.x_stride = stride;
          product.x_scales = scales;
          product.scale_stride = scale_stride;
          product.t = t;
          product.out_stride = op.out.cols;
          product.first_row = (group + i) * group_rows;
          product.n = group_rows;
          product.out_bf16 = Bits(op.out.Row(first));
        }
        self.Multiply({products.data(), static_cast<std::size_t>(n_groups)});
      }
    }
  }
};

bool CpuBackend::ComputeLinear(const Operation& operation) {
  return ComputeBy(LinearOperations{*this}, operation);
}

std::int64_t CpuBackend::TileRows(std::int64_t k) const {
  const std::int64_t fitting = std::ssize(scratch_.activations) / cpu::PreparedStride(k);
  Check(fitting > 0, "more inputs than Reserve announced, or Reserve was not called");
  return std::min(scratch_.tile_rows, fitting);
}

// Each piece makes its own copy of the data that its columns share: packed tiles of activations, or
// rows with folded factors. A piece should have enough columns to make up for that.
std::int64_t CpuBackend::PieceWork(std::span<const cpu::Product> products,
                                   std::int64_t work) const {
  std::int64_t columns = 0;
  std::int64_t pairs = 0;  // pairs of rows and columns
  for (const cpu::Product& product : products) {
    columns += product.n;
    pairs += product.n * product.t;
  }
  if (columns == 0) return kShareWork;
  std::int64_t together = 1;
  if (kernels_.workspace_bytes > 0 && pairs >= 4 * columns) {
    together = 64;  // packing takes the time of so many columns with several rows
  } else if (IsFp8(products.front().format) && pairs >= 20 * columns) {
    together = kernels_.sharing_columns;
    // Threads that end at different times cost more than shared data that are made twice.
    while (together > kColumnGroup && columns < 4 * team_.n_threads() * together) {
      together /= 2;
    }
  }
  return std::max(kShareWork, work / columns * together);
}

void CpuBackend::Multiply(std::span<const cpu::Product> products) {
  std::int64_t work = 0;
  for (const cpu::Product& product : products) {
    work += product.n * ColumnWork(product);
  }
  team_.For(work, PieceWork(products, work), [&](std::int64_t begin, std::int64_t end, int worker) {
    std::int64_t offset = 0;
    for (const cpu::Product& product : products) {
      const std::int64_t column_work = ColumnWork(product);
      const std::int64_t first = FirstColumn(begin - offset, column_work, product.n);
      const std::int64_t last = FirstColumn(end - offset, column_work, product.n);
      if (first < last) {
        cpu::Product mine = product;
        if (workspaces_ != nullptr) {
          mine.workspace = reinterpret_cast<std::uint8_t*>(workspaces_->address()) +
                           worker * kernels_.workspace_bytes;
        }
        kernels_.product(mine, first, last);
      }
      offset += product.n * column_work;
    }
  });
}

void CpuBackend::Prepare(cpu::ProductFormat format, const Bf16* x, std::int64_t x_stride,
                         std::int64_t count, std::int64_t k, float* out, float* scales,
                         Matrix<const std::int32_t> ids) {
  constexpr std::int64_t kWork = 8;  // work per number
  const auto is_needed = [&](std::int64_t row) {
    return ids.rows == 0 || std::ranges::any_of(ids.RowSpan(row), [](std::int32_t id) {
             return id != kRemoteExpert;
           });
  };
  ForEach(count, k * kWork, [&](std::int64_t row) {
    if (is_needed(row)) {
      kernels_.prepare(format, Bits(x + row * x_stride), k, out + row * cpu::PreparedStride(k),
                       scales + row * (k / kFp8Block));
    }
  });
}

}  // namespace fathom::kernels
