// Manifold-constrained hyper-connections (docs/numerics.md 5).
#include "kernels/gpu/device/hyper_connection.h"

#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

constexpr int kMixes = 2 * kStreams + kStreams * kStreams;  // rows of fn

// Returns the sum of four numbers, `stride` apart.
GPU_DEVICE float SumOfFour(const float* c, int stride) {
  return ((c[0] + c[stride]) + c[2 * stride]) + c[3 * stride];
}

// Divides every row of c [4, 4] by its sum + eps, or every column.
GPU_DEVICE void Normalize(float* c, bool columns, float eps) {
  const int along = columns ? kStreams : 1;
  const int across = columns ? 1 : kStreams;
  GPU_UNROLL
  for (int i = 0; i < kStreams; ++i) {
    const float sum = SumOfFour(c + i * across, along) + eps;
    GPU_UNROLL
    for (int j = 0; j < kStreams; ++j) {
      c[i * across + j * along] = Div(c[i * across + j * along], sum);
    }
  }
}

// c [4, 4], in place: logits become a matrix whose rows and columns sum to (almost) 1.
GPU_DEVICE void Sinkhorn(float* c, int64_t iterations, float eps) {
  GPU_UNROLL
  for (int i = 0; i < kStreams; ++i) {
    float* const row = c + i * kStreams;
    float maximum = row[0];
    GPU_UNROLL
    for (int j = 1; j < kStreams; ++j) {
      maximum = maximum < row[j] ? row[j] : maximum;
    }
    GPU_UNROLL
    for (int j = 0; j < kStreams; ++j) {
      row[j] = Exp<GpuOps>(row[j] - maximum);
    }
    const float sum = SumOfFour(row, 1);
    GPU_UNROLL
    for (int j = 0; j < kStreams; ++j) {
      row[j] = Div(row[j], sum) + eps;
    }
  }
  Normalize(c, /*columns=*/true, eps);
  for (int64_t i = 1; i < iterations; ++i) {
    Normalize(c, /*columns=*/false, eps);
    Normalize(c, /*columns=*/true, eps);
  }
}

// Computes the gates of the row for HcPost, by one thread. m(i): mix i.
template <class M>
GPU_DEVICE void ComputeGates(const HcPreArguments& a, const M& m, int64_t row) {
  GPU_UNROLL
  for (int j = 0; j < kStreams; ++j) {
    const int gate = kStreams + j;
    a.post.Row(row)[j] = 2.0f * Sigmoid<GpuOps>(m(gate) * a.w.scale[1] + a.w.base[gate]);
  }
  float comb[kStreams * kStreams];
  GPU_UNROLL
  for (int j = 0; j < kStreams * kStreams; ++j) {
    const int gate = 2 * kStreams + j;
    comb[j] = m(gate) * a.w.scale[2] + a.w.base[gate];
  }
  Sinkhorn(comb, a.sinkhorn_iterations, a.eps);
  GPU_UNROLL
  for (int j = 0; j < kStreams * kStreams; ++j) {
    a.comb.Row(row)[j] = comb[j];
  }
}

}  // namespace

GPU_KERNEL(HcPre, HcPreArguments a) {
  const int64_t width = a.streams.cols;
  const int64_t n_chains = TileCount(width, kMixChain);
  const int n_rows = a.post.data == nullptr ? kStreams : kMixes;  // rows of fn, then x
  const int64_t n_items = n_chains * (n_rows + 1);
  GPU_DYNAMIC_SHARED(float, chains, 0, n_items);
  GPU_SHARED(float, sums, kMixes + 1);
  const Bf16* const x = a.streams.Row(BlockX());
  for (int64_t item = ThreadX(); item < n_items; item += BlockThreads()) {
    const int64_t first = item / (n_rows + 1) * kMixChain;
    const int64_t end = first + kMixChain < width ? first + kMixChain : width;
    const int row = static_cast<int>(item % (n_rows + 1));
    float chain = 0.0f;
    for (int64_t k = first; k < end; ++k) {
      const float w = row == n_rows ? ToFloat(x[k]) : a.w.fn[row * width + k];
      chain = Fma(ToFloat(x[k]), w, chain);
    }
    chains[item] = chain;
  }
  SyncBlock();
  for (int row = ThreadX(); row <= n_rows; row += BlockThreads()) {
    float sum = 0.0f;
    for (int64_t i = 0; i < n_chains; ++i) {
      sum = sum + chains[i * (n_rows + 1) + row];
    }
    sums[row] = sum;
  }
  SyncBlock();
  const float r = InverseRoot(sums[n_rows], width, a.norm_eps);
  const auto m = [&](int i) { return sums[i] * r; };
  if (ThreadX() == 0 && a.post.data != nullptr) {
    ComputeGates(a, m, BlockX());
  }
  float pre[kStreams];
  GPU_UNROLL
  for (int j = 0; j < kStreams; ++j) {
    pre[j] = Sigmoid<GpuOps>(m(j) * a.w.scale[0] + a.w.base[j]) + a.eps;
  }
  const int64_t d = a.out.cols;
  Bf16* const out = a.out.Row(BlockX());
  for (int64_t i = ThreadX(); i < d; i += BlockThreads()) {
    float sum = pre[0] * ToFloat(x[i]);
    GPU_UNROLL
    for (int s = 1; s < kStreams; ++s) {
      sum = sum + pre[s] * ToFloat(x[s * d + i]);
    }
    out[i] = ToBf16(sum);
  }
}

GPU_KERNEL(HcPost, HcPostArguments a) {
  const int64_t item = BlockX() * BlockThreads() + ThreadX();
  const int64_t d = a.y.cols;
  if (item >= a.y.rows * d) return;
  const int64_t row = item / d;
  const int64_t i = item % d;
  const float* const post = a.post.Row(row);
  const float* const comb = a.comb.Row(row);
  Bf16* const s = a.streams.Row(row);
  const float value = ToFloat(a.y.Row(row)[i]);
  const float source[kStreams] = {ToFloat(s[i]), ToFloat(s[d + i]), ToFloat(s[2 * d + i]),
                                  ToFloat(s[3 * d + i])};
  GPU_UNROLL
  for (int j = 0; j < kStreams; ++j) {
    float sum = comb[j] * source[0];
    GPU_UNROLL
    for (int from = 1; from < kStreams; ++from) {
      sum = sum + comb[kStreams * from + j] * source[from];
    }
    s[j * d + i] = ToBf16(post[j] * value + sum);
  }
}

GPU_KERNEL(AddToStreams, AddToStreamsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.streams.rows * a.streams.cols) return;
  const int64_t row = i / a.streams.cols;
  const int64_t column = i % a.streams.cols % a.x.cols;
  a.streams.data[i] = ToBf16(ToFloat(a.streams.data[i]) + ToFloat(a.x.Row(row)[column]));
}

GPU_KERNEL(MeanOfStreams, MeanOfStreamsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  const int64_t d = a.streams.cols / kStreams;
  if (i >= a.streams.rows * d) return;
  const Bf16* const x = a.streams.Row(i / d) + i % d;
  float sum = ToFloat(x[0]);
  for (int64_t stream = 1; stream < kStreams; ++stream) {
    sum = sum + ToFloat(x[stream * d]);
  }
  a.out.Row(i / d)[a.first_column + i % d] = ToBf16(sum * (1.0f / kStreams));
}

GPU_KERNEL(Add, AddArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.out.rows * a.out.cols) return;
  a.out.data[i] = a.x.data[i] + a.y.data[i];
}

}  // namespace fathom::kernels::gpu
