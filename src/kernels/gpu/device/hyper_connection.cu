// Manifold-constrained hyper-connections (docs/numerics.md 5).
#include "kernels/gpu/device/hyper_connection.h"

#include "kernels/gpu/device/ahead.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/vectors.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

static_assert(kMixBatch == kAhead);
constexpr int kChainTokens = 4;    // rows of streams that a thread multiplies with its row of fn
constexpr int kTokenThreads = 32;  // threads with the same rows of streams

// Divides an index of a block or a thread, of which a grid has fewer than 2^32: a division of 64
// bits takes a hundred cycles.
struct Quotient {
  int64_t quotient = 0;
  int64_t rest = 0;
};
GPU_DEVICE Quotient DivideIndex(int64_t index, int64_t by) {
  const auto i = static_cast<uint32_t>(index);
  const auto n = static_cast<uint32_t>(by);
  return {i / n, i % n};
}

// Fills the tile: rows of fn, then rows of the streams. Numbers beyond the last column are -0 in fn
// and +0 in the streams: their products are -0, which changes no chain.
template <class Tile>
GPU_DEVICE void FillChainTile(const HcChainsArguments& a, int64_t first_column, int64_t first_row,
                              int64_t n_rows, const Tile& tile) {
  constexpr int kWeights = static_cast<int>(TileCount(kMixes * kChainVectors, kMaxBlockThreads));
  constexpr int kNumbers = 3;  // vectors of streams that a thread loads at once
  const int64_t width = a.streams.cols;
  const bool fn_is_aligned = IsAligned<FourFloats>(a.fn);
  const bool streams_are_aligned = IsAligned<FourBf16>(a.streams.data);
  FourFloats weights[kWeights];
  GPU_UNROLL
  for (int i = 0; i < kWeights; ++i) {
    const auto [row, vector] = DivideIndex(ThreadX() + i * kMaxBlockThreads, kChainVectors);
    const int64_t column = first_column + 4 * vector;
    weights[i] = row < a.n_mixes && column < width
                     ? LoadFour(a.fn + row * width + column, fn_is_aligned)
                     : FourFloats{{-0.0f, -0.0f, -0.0f, -0.0f}};
  }
  for (int64_t first = ThreadX(); first < n_rows * kChainVectors;
       first += kNumbers * kMaxBlockThreads) {
    FourBf16 numbers[kNumbers] = {};
    GPU_UNROLL
    for (int i = 0; i < kNumbers; ++i) {
      const auto [row, vector] = DivideIndex(first + i * kMaxBlockThreads, kChainVectors);
      const int64_t column = first_column + 4 * vector;
      if (row < n_rows && column < width) {
        numbers[i] =
            LoadBf16<FourBf16>(a.streams.Row(first_row + row) + column, 4, streams_are_aligned);
      }
    }
    GPU_UNROLL
    for (int i = 0; i < kNumbers; ++i) {
      const auto [row, vector] = DivideIndex(first + i * kMaxBlockThreads, kChainVectors);
      const FourBf16& x = numbers[i];
      if (row < n_rows) {
        tile[(a.n_mixes + row) * kChainStride + vector] =
            FourFloats{{Number(x, 0), Number(x, 1), Number(x, 2), Number(x, 3)}};
      }
    }
  }
  GPU_UNROLL
  for (int i = 0; i < kWeights; ++i) {
    const auto [row, vector] = DivideIndex(ThreadX() + i * kMaxBlockThreads, kChainVectors);
    if (row < a.n_mixes) tile[row * kChainStride + vector] = weights[i];
  }
}

// Computes the chains of kTokens rows of streams from the tile, each thread with its row of fn. As
// many further threads multiply one of these rows with all of them, for the product with itself.
template <int kTokens, class Tile>
GPU_DEVICE void ComputeChains(const Tile& tile, int64_t n_mixes, int64_t n_rows, int64_t row_floats,
                              float* chains) {
  static_assert(kMixes + kChainTokens <= kTokenThreads);
  const int lane = ThreadX() % kTokenThreads;
  const int64_t first = int64_t{ThreadX() / kTokenThreads} * kTokens;
  const int64_t own = first + lane - n_mixes;  // for the threads after the rows of fn
  const bool is_mix = lane < n_mixes;
  if (first >= n_rows || (!is_mix && (own >= first + kTokens || own >= n_rows))) return;
  const int64_t w_row = (is_mix ? lane : n_mixes + own) * kChainStride;
  int64_t x_rows[kTokens];
  float sums[kTokens] = {};
  GPU_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    x_rows[t] = (n_mixes + (first + t < n_rows ? first + t : n_rows - 1)) * kChainStride;
  }
  for (int64_t i = 0; i < kChainVectors; ++i) {
    const FourFloats w = tile[w_row + i];
    GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const FourFloats x = tile[x_rows[t] + i];
      GPU_UNROLL
      for (int k = 0; k < 4; ++k) {
        sums[t] = Fma(x.numbers[k], w.numbers[k], sums[t]);
      }
    }
  }
  GPU_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    if (first + t < n_rows && (is_mix || own == first + t)) {
      chains[(first + t) * row_floats + (is_mix ? 1 + lane : 0)] = sums[t];
    }
  }
}

// Fills shared memory with the first n floats of the chains of a row, and with zeros up to a
// multiple of kMixBatch chains: they change no sum, which is never -0. A chain has kLanes threads.
template <int n, int kLanes, class Shared>
GPU_DEVICE void FillChains(const float* chains, int64_t n_chains, const Shared& shared) {
  constexpr int kInFlight = 12;  // loads of a thread
  constexpr int kStep = kMaxBlockThreads / kLanes;
  const int lane = ThreadX() % kLanes;
  if (lane >= n) return;
  const int64_t end = TileCount(n_chains, kMixBatch) * kMixBatch;
  for (int64_t first = ThreadX() / kLanes; first < end; first += kInFlight * kStep) {
    float some[kInFlight];
    GPU_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t i = first + j * kStep;
      some[j] = i < n_chains ? chains[i * kChainFloats + lane] : 0.0f;
    }
    GPU_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      const int64_t i = first + j * kStep;
      if (i < end) shared[i * n + lane] = some[j];
    }
  }
}

// Returns mix i - 1 to lane i of a wave, i = 1 ... n - 1. All threads of the wave call it.
template <int n, class Shared>
GPU_DEVICE float MixOfLane(const HcPreArguments& a, const Shared& chains, int64_t n_chains) {
  const int lane = WaveLane() < n ? WaveLane() : 0;
  float sum = 0.0f;
  ForEachAhead(
      TileCount(n_chains, kMixBatch) * kMixBatch,
      [&](int64_t i) -> float { return chains[i * n + lane]; },
      [&](float chain) { sum = sum + chain; });
  return sum * InverseRoot(Shuffle(sum, 0), a.streams.cols, a.norm_eps);
}

// A number of a matrix [4, 4] in each lane of a group; the groups of a wave have the same numbers.
// The four lanes of a row, or of a column, are `step` apart.
struct Line {
  int first = 0;
  int step = 1;
};
GPU_DEVICE Line RowOfLane() { return {WaveLane() - WaveLane() % kStreams, 1}; }
GPU_DEVICE Line ColumnOfLane() {
  return {WaveLane() - WaveLane() % kGroupThreads + WaveLane() % kStreams, kStreams};
}

GPU_DEVICE float SumOfLine(float c, const Line& line) {
  const float c0 = Shuffle(c, line.first);
  const float c1 = Shuffle(c, line.first + line.step);
  const float c2 = Shuffle(c, line.first + 2 * line.step);
  const float c3 = Shuffle(c, line.first + 3 * line.step);
  return ((c0 + c1) + c2) + c3;
}

GPU_DEVICE float LargestOfLine(float c, const Line& line) {
  float largest = Shuffle(c, line.first);
  GPU_UNROLL
  for (int j = 1; j < kStreams; ++j) {
    const float other = Shuffle(c, line.first + j * line.step);
    largest = largest < other ? other : largest;
  }
  return largest;
}

// Logits become a matrix whose rows and columns sum to (almost) 1.
GPU_DEVICE float Sinkhorn(float logit, int64_t iterations, float eps) {
  const Line row = RowOfLane();
  const Line column = ColumnOfLane();
  float c = Exp<GpuOps>(logit - LargestOfLine(logit, row));
  c = Div(c, SumOfLine(c, row)) + eps;
  c = Div(c, SumOfLine(c, column) + eps);
  for (int64_t i = 1; i < iterations; ++i) {
    c = Div(c, SumOfLine(c, row) + eps);
    c = Div(c, SumOfLine(c, column) + eps);
  }
  return c;
}

// Computes the gates of the row for HcPost: a wave the gates of the streams, another one of y.
template <class Shared>
GPU_DEVICE void ComputeMix(const HcPreArguments& a, int64_t row, const float* chains,
                           int64_t n_chains, const Shared& shared) {
  constexpr int kFirst = 1 + 2 * kStreams;  // of the mixes of comb
  FillChains<kChainFloats, 32>(chains, n_chains, shared);
  SyncBlock();
  if (ThreadX() < WaveSize()) {
    const float scale = a.w.scale[2];
    const float base = a.w.base[kFirst - 1 + GroupLane()];
    const float m = Shuffle(MixOfLane<kChainFloats>(a, shared, n_chains), kFirst + GroupLane());
    const float comb = Sinkhorn(m * scale + base, a.sinkhorn_iterations, a.eps);
    if (ThreadX() < kGroupThreads) a.comb.Row(row)[ThreadX()] = comb;
  } else if (ThreadX() < 2 * WaveSize()) {
    const int gate = WaveLane() - 1;
    const bool is_post = gate >= kStreams && gate < 2 * kStreams;
    const float scale = a.w.scale[1];
    const float base = is_post ? a.w.base[gate] : 0.0f;
    const float m = MixOfLane<kChainFloats>(a, shared, n_chains);
    if (is_post) a.post.Row(row)[gate - kStreams] = 2.0f * Sigmoid<GpuOps>(m * scale + base);
  }
}

// Computes kPreColumns columns of out from the streams x of the row, eight by each thread.
template <class Shared>
GPU_DEVICE void MixDown(const HcPreArguments& a, int64_t row, int64_t first_column,
                        const float* chains, int64_t n_chains, const Shared& shared) {
  GPU_SHARED(float, gates, kStreams);
  const int64_t d = a.out.cols;
  const int64_t column = first_column + int64_t{EightBf16::kNumbers} * ThreadX();
  const int64_t n = d - column;
  const bool is_aligned = d % EightBf16::kNumbers == 0 && IsAligned<EightBf16>(a.streams.data) &&
                          IsAligned<EightBf16>(a.out.data);
  EightBf16 x[kStreams] = {};
  if (n > 0) {
    GPU_UNROLL
    for (int s = 0; s < kStreams; ++s) {
      x[s] = LoadBf16<EightBf16>(a.streams.Row(row) + s * d + column, n, is_aligned);
    }
  }
  FillChains<1 + kStreams, 8>(chains, n_chains, shared);
  SyncBlock();
  if (ThreadX() < WaveSize()) {
    const int gate = WaveLane() - 1;
    const bool is_pre = gate >= 0 && gate < kStreams;
    const float scale = a.w.scale[0];
    const float base = is_pre ? a.w.base[gate] : 0.0f;
    const float m = MixOfLane<1 + kStreams>(a, shared, n_chains);
    if (is_pre) gates[gate] = Sigmoid<GpuOps>(m * scale + base) + a.eps;
  }
  SyncBlock();
  if (n <= 0) return;
  const float pre[kStreams] = {gates[0], gates[1], gates[2], gates[3]};
  EightBf16 u = {};
  GPU_UNROLL
  for (int i = 0; i < EightBf16::kNumbers; ++i) {
    float sum = pre[0] * Number(x[0], i);
    GPU_UNROLL
    for (int s = 1; s < kStreams; ++s) {
      sum = sum + pre[s] * Number(x[s], i);
    }
    SetNumber(u, i, ToBf16(sum));
  }
  StoreBf16(u, a.out.Row(row) + column, n, is_aligned);
}

}  // namespace

GPU_KERNEL(HcChains, HcChainsArguments a) {
  const int64_t n_chains = MixChains(a.streams.cols);
  const auto [rows, chain] = DivideIndex(BlockX(), n_chains);
  const int64_t first_row = rows * kChainRows;
  const int64_t rest = a.streams.rows - first_row;
  const int64_t n_rows = rest < kChainRows ? rest : kChainRows;
  GPU_DYNAMIC_SHARED(FourFloats, tile, 0, ChainTileBytes(a.n_mixes, a.streams.rows) / 16);
  FillChainTile(a, chain * kMixChain, first_row, n_rows, tile);
  SyncBlock();
  const int64_t row_floats = n_chains * kChainFloats;
  float* const chains = a.chains + first_row * row_floats + chain * kChainFloats;
  if (n_rows < kChainTokens) {
    ComputeChains<1>(tile, a.n_mixes, n_rows, row_floats, chains);
  } else {
    ComputeChains<kChainTokens>(tile, a.n_mixes, n_rows, row_floats, chains);
  }
}

GPU_KERNEL(HcPre, HcPreArguments a) {
  const bool has_mix = a.post.data != nullptr;
  const int64_t n_blocks = PreBlocks(a.out.cols, has_mix);
  const auto [row, block] = DivideIndex(BlockX(), n_blocks);
  const int64_t n_chains = MixChains(a.streams.cols);
  const float* const chains = a.chains + row * n_chains * kChainFloats;
  GPU_DYNAMIC_SHARED(float, shared, 0, MixSumBytes(n_chains) / 4);
  if (has_mix && block == 0) {
    ComputeMix(a, row, chains, n_chains, shared);
  } else {
    MixDown(a, row, (block - (has_mix ? 1 : 0)) * kPreColumns, chains, n_chains, shared);
  }
}

GPU_KERNEL(HcPost, HcPostArguments a) {
  const int64_t d = a.y.cols;
  const int64_t n_vectors = TileCount(d, kPostNumbers);
  const int64_t item = BlockX() * BlockThreads() + ThreadX();
  if (item >= a.y.rows * n_vectors) return;
  const auto [row, vector] = DivideIndex(item, n_vectors);
  const int64_t column = vector * kPostNumbers;
  const int64_t n = d - column;
  static_assert(kPostNumbers == FourBf16::kNumbers);
  const bool is_aligned =
      d % kPostNumbers == 0 && IsAligned<FourBf16>(a.y.data) && IsAligned<FourBf16>(a.streams.data);
  Bf16* const streams = a.streams.Row(row) + column;
  const auto y = LoadBf16<FourBf16>(a.y.Row(row) + column, n, is_aligned);
  const auto load = [&](int s) { return LoadBf16<FourBf16>(streams + s * d, n, is_aligned); };
  const FourBf16 source[kStreams] = {load(0), load(1), load(2), load(3)};
  const FourFloats post = LoadFour(a.post.Row(row), IsAligned<FourFloats>(a.post.data));
  FourFloats comb[kStreams];
  GPU_UNROLL
  for (int s = 0; s < kStreams; ++s) {
    comb[s] = LoadFour(a.comb.Row(row) + s * kStreams, IsAligned<FourFloats>(a.comb.data));
  }
  const auto mix = [&](int j, int i) {
    float sum = comb[0].numbers[j] * Number(source[0], i);
    GPU_UNROLL
    for (int from = 1; from < kStreams; ++from) {
      sum = sum + comb[from].numbers[j] * Number(source[from], i);
    }
    return ToBf16(post.numbers[j] * Number(y, i) + sum);
  };
  GPU_UNROLL
  for (int j = 0; j < kStreams; ++j) {
    FourBf16 mixed = {};
    GPU_UNROLL
    for (int i = 0; i < kPostNumbers; ++i) SetNumber(mixed, i, mix(j, i));
    StoreBf16(mixed, streams + j * d, n, is_aligned);
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
