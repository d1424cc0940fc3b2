// Hyper-connections (docs/numerics.md 5).
#include "kernels/cpu/vector/chains.h"
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/product_rows.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/math.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kStreams = 4;
constexpr int64_t kGates = 24;
constexpr int64_t kHeadGates = 4;
constexpr int64_t kChain = cpu::kHyperBlock;    // columns per fma chain
constexpr int64_t kRowStride = kChain + 4;      // rows of fn in different sets of the cache
constexpr int64_t kGateGroup = 12;              // gates whose chains are in registers together
constexpr int64_t kPiece = 16;                  // columns: a cache line of weights
constexpr int64_t kAheadColumns = 16 * kPiece;  // prefetch distance of a few tokens; measured
// With up to kFewTokens tokens the gates are the lanes, if they fill registers: 24 gates are three
// registers of 8 lanes, but one and a half of 16.
constexpr int64_t kFewTokens = kGates % kLanes == 0 ? 4 : 0;

// A block of columns of the weights and of the tokens' streams, and the destination of its chains.
struct ColumnBlock {
  const float* fn;          // row of the first gate
  int64_t width;            // distance between rows
  const uint16_t* streams;  // streams of the first token
  int64_t columns;          // at most kChain, a multiple of kPiece
  float* chains;            // [gates + 1, stride]
  int64_t stride;
};

// --- A few tokens: gates in the lanes. Weights are transposed in registers.

// Computes all chains of a block for kRows tokens.
template <int kRows>
void ComputeFewChains(const ColumnBlock& block) {
  constexpr int kVectors = kGates / kLanes;
  float x[kRows][kChain];
  for (int t = 0; t < kRows; ++t) {
    for (int64_t k = 0; k < block.columns; k += kLanes) {
      Store(x[t] + k, LoadBf16(block.streams + t * block.width + k));
    }
  }
  F32 chains[kRows][kVectors];
  F32 squares[kRows];
  for (int t = 0; t < kRows; ++t) {
    squares[t] = Zero();
    for (F32& chain : chains[t]) {
      chain = Zero();
    }
  }
  for (int64_t piece = 0; piece < block.columns; piece += kPiece) {
    for (int v = 0; v < kVectors; ++v) {
      const float* fn = block.fn + v * kLanes * block.width + piece;
      for (int64_t row = 0; row < kLanes; ++row) {
        __builtin_prefetch(fn + row * block.width + kAheadColumns, 0, 2);
      }
      for (int64_t k = 0; k < kPiece; k += 4) {
        F32 weights[4];
        LoadColumns(fn + k, block.width, weights);
        for (int j = 0; j < 4; ++j) {
          for (int t = 0; t < kRows; ++t) {
            const F32 value = Set(x[t][piece + k + j]);
            chains[t][v] = MulAdd(value, weights[j], chains[t][v]);
            if (v == 0) {
              squares[t] = MulAdd(value, value, squares[t]);
            }
          }
        }
      }
    }
  }
  for (int t = 0; t < kRows; ++t) {
    float gates[kVectors * kLanes];
    for (int v = 0; v < kVectors; ++v) {
      Store(gates + v * kLanes, chains[t][v]);
    }
    for (int64_t gate = 0; gate < kVectors * kLanes; ++gate) {
      block.chains[gate * block.stride + t] = gates[gate];
    }
    block.chains[kVectors * kLanes * block.stride + t] = FirstLane(squares[t]);
  }
}

// --- More tokens: the tokens are the lanes. Streams are transposed.

// Copies of weights and streams are needed because rows that are a power of two apart share a few
// sets of the caches: thus only kGateGroup rows of weights are read at a time.
struct alignas(64) TileBlock {
  float fn[kGateGroup][kRowStride];
  uint16_t x[kLanes][kChain + 8];
  float columns[cpu::kHyperTile / kLanes][kChain][kLanes];  // x, transposed
};

// Copies with Kept and through fp32: GCC would turn plain copies into slow string instructions.
void LoadGates(const float* fn, int64_t width, int64_t gates, int64_t columns, TileBlock& tile) {
  for (int64_t gate = 0; gate < gates; ++gate) {
    for (int64_t k = 0; k < columns; k += kLanes) {
      Store(tile.fn[gate] + k, Kept(Load(fn + gate * width + k)));
    }
  }
}

// Transposes the columns of `count` tokens, at most kLanes; repeats the last token to fill the
// lanes. Returns the chains of the squares.
F32 LoadTokens(const uint16_t* streams, int64_t width, int64_t count, int64_t columns,
               TileBlock& tile, float (*transposed)[kLanes]) {
  for (int64_t t = 0; t < kLanes; ++t) {
    const uint16_t* x = streams + (t < count ? t : count - 1) * width;
    for (int64_t k = 0; k < columns; k += kLanes) {
      __builtin_prefetch(x + kChain + k, 0, 2);
      StoreHigh16(tile.x[t] + k, Bits(LoadBf16(x + k)));
    }
  }
  F32 chain = Zero();
  for (int64_t k = 0; k < columns; k += 8) {
    F32 values[8];
    LoadBf16Columns(tile.x[0] + k, kChain + 8, values);
    for (int64_t c = 0; c < 8; ++c) {
      Store(transposed[k + c], values[c]);
      chain = MulAdd(values[c], values[c], chain);
    }
  }
  return chain;
}

// Computes the chains of kCount gates for the tokens in the lanes. Meanwhile prefetches the rows at
// `next`, unless null, which are copied next.
template <int kCount>
void ComputeChains(const TileBlock& tile, const float (*transposed)[kLanes], int64_t columns,
                   const float* next, int64_t width, F32 (&chains)[kCount][1]) {
  for (auto& chain : chains) {
    chain[0] = Zero();
  }
  for (int64_t piece = 0; piece < columns; piece += kPiece) {
    for (int64_t row = 0; row < kCount && next != nullptr; ++row) {
      __builtin_prefetch(next + row * width + piece, 0, 2);
    }
    ExtendChains<kRowStride, kLanes>(tile.fn[0] + piece, transposed[piece], kPiece, chains);
  }
}

// Computes all chains of `count` tokens, at most kHyperTile, for kGroups groups of kCount gates.
template <int kCount, int kGroups>
void ComputeTile(const ColumnBlock& block, int64_t count, TileBlock& tile) {
  const auto tokens_from = [count](int64_t first) {
    return static_cast<int>(count - first < kLanes ? count - first : kLanes);
  };
  for (int64_t t = 0; t < count; t += kLanes) {
    const int n = tokens_from(t);
    const F32 squares = LoadTokens(block.streams + t * block.width, block.width, n, block.columns,
                                   tile, tile.columns[t / kLanes]);
    StoreSome(block.chains + kCount * kGroups * block.stride + t, squares, n);
  }
  for (int64_t group = 0; group < kGroups; ++group) {
    const float* fn = block.fn + group * kCount * block.width;
    const float* next = group + 1 < kGroups ? fn + kCount * block.width : block.fn + kChain;
    LoadGates(fn, block.width, kCount, block.columns, tile);
    for (int64_t t = 0; t < count; t += kLanes) {
      F32 chains[kCount][1];
      ComputeChains<kCount>(tile, tile.columns[t / kLanes], block.columns, t == 0 ? next : nullptr,
                            block.width, chains);
      for (int g = 0; g < kCount; ++g) {
        StoreSome(block.chains + (group * kCount + g) * block.stride + t, chains[g][0],
                  tokens_from(t));
      }
    }
  }
}

// --- Gates

// Adds the chains of at most kLanes rows from `first` on over all blocks: tokens are the lanes.
// sums [gates + 1].
void SumChains(const cpu::HyperRows& rows, int64_t blocks, int64_t gates, int64_t first, int count,
               F32* sums) {
  constexpr int kCount = 5;  // divides 25 and 5 chains
  for (int64_t gate = 0; gate <= gates; gate += kCount) {
    const float* chains = rows.chains + gate * rows.count + first;
    F32 sum[kCount];
    for (F32& lanes : sum) {
      lanes = Zero();
    }
    for (int64_t block = 0; block < blocks; ++block) {
      for (int g = 0; g < kCount; ++g) {
        sum[g] = sum[g] + LoadSome(chains + g * rows.count, count);
      }
      chains += (gates + 1) * rows.count;
    }
    for (int g = 0; g < kCount; ++g) {
      sums[gate + g] = sum[g];
    }
  }
}

template <class F>
F SumOfFour(const F* c, int64_t stride) {
  return ((c[0] + c[stride]) + c[2 * stride]) + c[3 * stride];
}

// Divides every row of c [4, 4] by its sum + eps, or every column.
template <class Ops>
void Normalize(typename Ops::F* c, bool columns, float eps) {
  const int64_t along = columns ? kStreams : 1;
  const int64_t across = columns ? 1 : kStreams;
  for (int64_t i = 0; i < kStreams; ++i) {
    const typename Ops::F sum = SumOfFour(c + i * across, along) + Ops::Set(eps);
    for (int64_t j = 0; j < kStreams; ++j) {
      c[i * across + j * along] = c[i * across + j * along] / sum;
    }
  }
}

template <class Ops>
void Sinkhorn(typename Ops::F* c, int64_t iterations, float eps) {
  using F = typename Ops::F;
  for (int64_t i = 0; i < kStreams; ++i) {
    F* row = c + i * kStreams;
    F maximum = row[0];
    for (int64_t j = 1; j < kStreams; ++j) {
      maximum = Ops::SelectLess(maximum, row[j], row[j], maximum);
    }
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = Exp<Ops>(row[j] - maximum);
    }
    const F sum = SumOfFour(row, 1);
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = row[j] / sum + Ops::Set(eps);
    }
  }
  Normalize<Ops>(c, /*columns=*/true, eps);
  for (int64_t i = 1; i < iterations; ++i) {
    Normalize<Ops>(c, /*columns=*/false, eps);
    Normalize<Ops>(c, /*columns=*/true, eps);
  }
}

// gates [24]: mixes on entry; on return pre [4], post [4], comb [16]. Scalars compute one token,
// vectors one token per lane.
template <class Ops>
void ComputeGates(const cpu::HyperWeights& w, typename Ops::F* gates) {
  using F = typename Ops::F;
  for (int64_t i = 0; i < w.gates; ++i) {
    const int64_t kind = i < kStreams ? 0 : i < 2 * kStreams ? 1 : 2;
    gates[i] = gates[i] * Ops::Set(w.scale[kind]) + Ops::Set(w.base[i]);
    if (kind == 0) {
      gates[i] = Sigmoid<Ops>(gates[i]) + Ops::Set(w.eps);
    } else if (kind == 1) {
      const F sigmoid = Sigmoid<Ops>(gates[i]);
      gates[i] = sigmoid + sigmoid;  // twice, exactly
    }
  }
  if (w.gates == kGates) {
    Sinkhorn<Ops>(gates + 2 * kStreams, w.sinkhorn_iterations, w.eps);
  }
}

// Computes the gates of the `count` tokens in the lanes, in m[token].
void ComputeAllGates(const cpu::HyperWeights& w, int64_t width, int64_t count, const F32* sums,
                     float (*m)[kGates]) {
  constexpr int64_t kVectorTokens = 4;  // with fewer tokens, scalars are faster
  const F32 r =
      Set(1.0f) / SquareRoot(sums[w.gates] / Set(static_cast<float>(width)) + Set(w.norm_eps));
  F32 gates[kGates];
  for (int64_t i = 0; i < w.gates; ++i) {
    gates[i] = sums[i] * r;
  }
  if (count >= kVectorTokens) {
    ComputeGates<VectorOps>(w, gates);
  }
  for (int64_t i = 0; i < w.gates; ++i) {
    float lanes[kLanes];
    Store(lanes, gates[i]);
    for (int64_t t = 0; t < count; ++t) {
      m[t][i] = lanes[t];
    }
  }
  for (int64_t t = 0; t < count && count < kVectorTokens; ++t) {
    ComputeGates<ScalarOps>(w, m[t]);
  }
}

void MixDown(const uint16_t* x, int64_t d, const float* pre, uint16_t* out) {
  ForVectors(d, [&](int64_t i, int n) {
    F32 sum = Set(pre[0]) * LoadBf16Some(x + i, n);
    for (int64_t s = 1; s < kStreams; ++s) {
      sum = sum + Set(pre[s]) * LoadBf16Some(x + s * d + i, n);
    }
    StoreBf16Some(out + i, sum, n);
  });
}

}  // namespace

// Items are tiles of rows of a block of columns, then of the next block. A chain that is -0 adds
// the same as +0 to a sum that started from +0.
void HyperChains(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first,
                 int64_t end) {
  const int64_t width = kStreams * rows.d;
  const int64_t tiles = (rows.count + cpu::kHyperTile - 1) / cpu::kHyperTile;
  TileBlock tile;
  for (int64_t item = first; item < end; ++item) {
    const int64_t column = item / tiles * kChain;
    const int64_t row = item % tiles * cpu::kHyperTile;
    const int64_t left = rows.count - row;
    const int64_t count = left < cpu::kHyperTile ? left : cpu::kHyperTile;
    const ColumnBlock block = {
        .fn = w.fn + column,
        .width = width,
        .streams = rows.streams + row * width + column,
        .columns = width - column < kChain ? width - column : kChain,
        .chains = rows.chains + item / tiles * (w.gates + 1) * rows.count + row,
        .stride = rows.count};
    if (w.gates != kGates) {
      ComputeTile<kHeadGates, 1>(block, count, tile);
    } else if (count > kFewTokens) {
      ComputeTile<kGateGroup, kGates / kGateGroup>(block, count, tile);
    } else if constexpr (kFewTokens > 0) {
      WithConstant<kFewTokens>(count, [&](auto few) { ComputeFewChains<few.kValue>(block); });
    }
  }
}

void HyperPre(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first, int64_t end) {
  const int64_t width = kStreams * rows.d;
  const int64_t blocks = (width + kChain - 1) / kChain;
  for (int64_t begin = first; begin < end; begin += kLanes) {
    const int count = static_cast<int>(end - begin < kLanes ? end - begin : kLanes);
    F32 sums[kGates + 1];
    float m[kLanes][kGates];
    SumChains(rows, blocks, w.gates, begin, count, sums);
    ComputeAllGates(w, width, count, sums, m);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t row = begin + t;
      MixDown(rows.streams + row * width, rows.d, m[t], rows.out + row * rows.d);
      if (w.gates == kGates) {
        __builtin_memcpy(rows.post + row * kStreams, m[t] + kStreams, sizeof(float) * kStreams);
        __builtin_memcpy(rows.comb + row * kStreams * kStreams, m[t] + 2 * kStreams,
                         sizeof(float) * kStreams * kStreams);
      }
    }
  }
}

void HyperPost(const uint16_t* y, const float* post, const float* comb, int64_t d,
               uint16_t* streams) {
  ForVectors(d, [&](int64_t i, int n) {
    const F32 value = LoadBf16Some(y + i, n);
    F32 source[kStreams];
    for (int64_t s = 0; s < kStreams; ++s) {
      source[s] = LoadBf16Some(streams + s * d + i, n);
    }
    for (int64_t j = 0; j < kStreams; ++j) {
      F32 sum = Set(comb[j]) * source[0];
      for (int64_t s = 1; s < kStreams; ++s) {
        sum = sum + Set(comb[kStreams * s + j]) * source[s];
      }
      StoreBf16Some(streams + j * d + i, Set(post[j]) * value + sum, n);
    }
  });
}

}  // namespace fathom::kernels::KERNEL_ISA
