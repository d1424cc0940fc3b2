// Hyper-connections (docs/numerics.md 5).
#include "kernels/cpu/chains.h"
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/math.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kStreams = 4;
constexpr int64_t kGates = 24;
constexpr int64_t kGateVectors = (kGates + kLanes - 1) / kLanes;
constexpr int64_t kChain = cpu::kHyperBlock;     // columns per fma chain
constexpr int64_t kRowStride = kChain + 4;       // rows of fn in different sets of the cache
constexpr int kTokenTile = 8;                    // tokens that share a transposed vector of gates
constexpr int64_t kTokens = cpu::kHyperFewRows;  // tokens whose gates are computed together
constexpr int64_t kTile = 32;                    // and with many tokens, which are lanes then
// Chains of squares that are computed together: in two registers, for the latency of one.
constexpr int64_t kSquareChains = 2 * kLanes;

// kChain columns of the gates' rows and of the tokens' streams.
struct alignas(64) MixBlock {
  float fn[kGateVectors * kLanes][kRowStride];
  float x[kTokens][kChain];
  int64_t columns;  // fewer in the last block
};

// The sums of the chains so far; gates in lanes.
using MixSums = F32[kTokens][kGateVectors];

// Adds the block's chains of kVectors vectors of gates for kRows tokens.
template <int kRows, int kVectors>
void AddChains(const MixBlock& block, int64_t first_token, int64_t first_vector, MixSums& sums) {
  F32 chain[kRows][kVectors];
  for (auto& row : chain) {
    for (F32& lanes : row) {
      lanes = Zero();
    }
  }
  const float* x = block.x[first_token];
  for (int64_t k = 0; k < block.columns; k += 4) {
    for (int v = 0; v < kVectors; ++v) {
      F32 weights[4];
      LoadColumns(block.fn[(first_vector + v) * kLanes] + k, kRowStride, weights);
      for (int j = 0; j < 4; ++j) {
        for (int t = 0; t < kRows; ++t) {
          chain[t][v] = MulAdd(Set(x[t * kChain + k + j]), weights[j], chain[t][v]);
        }
      }
    }
  }
  for (int t = 0; t < kRows; ++t) {
    for (int v = 0; v < kVectors; ++v) {
      F32& sum = sums[first_token + t][first_vector + v];
      sum = sum + chain[t][v];
    }
  }
}

// Tokens whose chains of all gates are added together: as many as have registers beside a vector of
// gates' columns, since every call transposes these anew.
constexpr int64_t kTokensTogether = 3;

void AddBlock(const MixBlock& block, int64_t count, int64_t vectors, MixSums& sums) {
  int64_t t = 0;
  for (; t + kTokenTile <= count; t += kTokenTile) {
    for (int64_t v = 0; v < vectors; ++v) {
      AddChains<kTokenTile, 1>(block, t, v, sums);
    }
  }
  for (; t + kTokensTogether <= count && vectors == kGateVectors; t += kTokensTogether) {
    AddChains<kTokensTogether, kGateVectors>(block, t, 0, sums);
  }
  for (; t + 2 <= count && vectors == kGateVectors; t += 2) {
    AddChains<2, kGateVectors>(block, t, 0, sums);
  }
  // All vectors at once: with one token there are so few chains that their latency is the limit.
  for (; t < count; ++t) {
    if (vectors == kGateVectors) {
      AddChains<1, kGateVectors>(block, t, 0, sums);
    } else {
      AddChains<1, 1>(block, t, 0, sums);  // the head's four gates
    }
  }
}

void LoadBlock(const cpu::HyperWeights& w, int64_t width, const uint16_t* streams, int64_t count,
               int64_t first, MixBlock& block) {
  block.columns = width - first < kChain ? width - first : kChain;
  for (int64_t gate = 0; gate < w.gates; ++gate) {
    const float* row = w.fn + gate * width + first;
    for (int64_t k = 0; k < block.columns; k += kLanes) {
      // The next block's: 768 bytes of each row are too few for the processor's own prefetches.
      __builtin_prefetch(row + kChain + k, 0, 2);
      Store(block.fn[gate] + k, Load(row + k));
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t k = 0; k < block.columns; k += kLanes) {
      Store(block.x[t] + k, LoadBf16(streams + t * width + first + k));
    }
  }
}

int64_t CountVectors(const cpu::HyperWeights& w) { return (w.gates + kLanes - 1) / kLanes; }

void ClearSums(int64_t count, MixSums& sums) {
  for (int64_t t = 0; t < count; ++t) {
    for (F32& sum : sums[t]) {
      sum = Zero();
    }
  }
}

// Computes the chains of the squares of x [n], at most kSquareChains blocks of columns; chains of
// blocks that are not there are 0. The lanes are blocks, since a token is one row.
void ComputeSquareChains(const uint16_t* x, int64_t n, float (&chains)[kSquareChains]) {
  uint16_t padded[kSquareChains * kChain];
  if (n < kSquareChains * kChain) {
    __builtin_memcpy(padded, x, static_cast<size_t>(n) * sizeof(uint16_t));
    __builtin_memset(padded + n, 0, sizeof(padded) - static_cast<size_t>(n) * sizeof(uint16_t));
    x = padded;
  }
  const auto add_columns = [](const uint16_t* first, F32 sum) {
    F32 columns[8];
    LoadBf16Columns(first, kChain, columns);
    for (const F32 column : columns) {
      sum = MulAdd(column, column, sum);
    }
    return sum;
  };
  F32 low = Zero();
  F32 high = Zero();
  for (int64_t k = 0; k < kChain; k += 8) {
    low = add_columns(x + k, low);
    high = add_columns(x + kLanes * kChain + k, high);
  }
  Store(chains, low);
  Store(chains + kLanes, high);
}

// Calls add(block, chain) with the chains of the squares of column blocks [first, end) of the
// streams x [width] of one token.
template <class Add>
void ForSquareChains(const uint16_t* x, int64_t width, int64_t first, int64_t end, const Add& add) {
  for (int64_t block = first; block < end; block += kSquareChains) {
    const int64_t last = end - block < kSquareChains ? end : block + kSquareChains;
    const int64_t columns = last * kChain < width ? last * kChain : width;
    float chains[kSquareChains];
    ComputeSquareChains(x + block * kChain, columns - block * kChain, chains);
    for (int64_t i = block; i < last; ++i) {
      add(i, chains[i - block]);
    }
  }
}

// Computes the sums of the chains over column blocks, for `count` tokens. Calls after_block(index)
// after each.
template <class AfterBlock>
void SumBlocks(const cpu::HyperWeights& w, int64_t width, const uint16_t* streams, int64_t count,
               int64_t first, int64_t end, MixSums& sums, const AfterBlock& after_block) {
  const int64_t vectors = CountVectors(w);
  MixBlock block;
  for (int64_t row = w.gates; row < vectors * kLanes; ++row) {  // lanes without a gate
    __builtin_memset(block.fn[row], 0, sizeof(block.fn[row]));
  }
  ClearSums(count, sums);
  for (int64_t i = first; i < end; ++i) {
    LoadBlock(w, width, streams, count, i * kChain, block);
    AddBlock(block, count, vectors, sums);
    after_block(i);
  }
}

// Adds chains that were computed before; `first_row` is a token. squares [count]: 0 on entry.
void SumChains(const cpu::HyperRows& rows, int64_t blocks, int64_t vectors, int64_t first_row,
               int64_t count, MixSums& sums, float* squares) {
  ClearSums(count, sums);
  for (int64_t i = 0; i < blocks; ++i) {
    const float* chains = rows.chains + (i * rows.count + first_row) * cpu::kHyperLanes;
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t v = 0; v < vectors; ++v) {
        sums[t][v] = sums[t][v] + Load(chains + t * cpu::kHyperLanes + v * kLanes);
      }
      squares[t] += chains[t * cpu::kHyperLanes + kGates];
    }
  }
}

// A block of columns (at most kChain, a multiple of 16) for many tokens. The copy is needed because
// rows that are a power of two apart share a few sets of the first-level cache.
struct alignas(64) TileBlock {
  float fn[kGates][kRowStride];
  uint16_t x[kTile][kChain + 8];
  float columns[kChain][kTile];  // x, transposed
};

// Adds the chains of the squares to squares [count]. Copies with Kept and through fp32: GCC would
// turn plain copies into slow string instructions.
void LoadTile(const cpu::HyperWeights& w, int64_t width, const uint16_t* streams, int64_t count,
              int64_t first, int64_t n, TileBlock& block, float* squares) {
  for (int64_t gate = 0; gate < w.gates; ++gate) {
    for (int64_t k = 0; k < n; k += kLanes) {
      Store(block.fn[gate] + k, Kept(Load(w.fn + gate * width + first + k)));
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    const uint16_t* x = streams + t * width + first;
    for (int64_t k = 0; k < n; k += kLanes) {
      StoreHigh16(block.x[t] + k, Bits(LoadBf16(x + k)));
    }
  }
  F32 chains[kTile / kLanes];
  for (F32& chain : chains) {
    chain = Zero();
  }
  for (int64_t k = 0; k < n; k += 8) {
    for (int64_t t = 0; t < count; t += kLanes) {
      F32 values[8];
      LoadBf16Columns(block.x[t] + k, kChain + 8, values);
      F32& chain = chains[t / kLanes];
      for (int64_t c = 0; c < 8; ++c) {
        Store(block.columns[k + c] + t, values[c]);
        chain = MulAdd(values[c], values[c], chain);
      }
    }
  }
  for (int64_t t = 0; t < count; t += kLanes) {
    Store(squares + t, Load(squares + t) + chains[t / kLanes]);
  }
}

// m[t] for `count` tokens, a multiple of kLanes, at most kTile.
void MixTile(const cpu::HyperWeights& w, int64_t d, const uint16_t* streams, int64_t count,
             float (*m)[kGates]) {
  const int64_t width = kStreams * d;
  float sums[kGates][kTile] = {};
  float squares[kTile] = {};
  TileBlock block;
  for (int64_t first = 0; first < width; first += kChain) {
    const int64_t n = width - first < kChain ? width - first : kChain;
    LoadTile(w, width, streams, count, first, n, block, squares);
    AddAllChains<kRowStride, kTile>(block.fn[0], w.gates, block.columns[0], count, n, sums[0],
                                    kTile);
  }
  for (int64_t t = 0; t < count; ++t) {
    const float r = InverseNorm(squares[t], width, w.norm_eps);
    for (int64_t gate = 0; gate < w.gates; ++gate) {
      m[t][gate] = sums[gate][t] * r;
    }
  }
}

// m[t] for a few tokens from `first_row`. 4 d: a multiple of 16.
void Mix(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first_row, int64_t count,
         float (*m)[kGates]) {
  const int64_t width = kStreams * rows.d;
  const int64_t blocks = (width + kChain - 1) / kChain;
  const int64_t vectors = CountVectors(w);
  const uint16_t* streams = rows.streams + first_row * width;
  MixSums sums;
  float squares[kTokens] = {};
  if (rows.chains != nullptr) {
    SumChains(rows, blocks, vectors, first_row, count, sums, squares);
  } else {
    SumBlocks(w, width, streams, count, 0, blocks, sums, [](int64_t) {});
    for (int64_t t = 0; t < count; ++t) {
      ForSquareChains(streams + t * width, width, 0, blocks,
                      [&](int64_t, float chain) { squares[t] += chain; });
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    const F32 r = Set(InverseNorm(squares[t], width, w.norm_eps));
    float products[kGateVectors * kLanes];
    for (int64_t v = 0; v < vectors; ++v) {
      Store(products + v * kLanes, sums[t][v] * r);
    }
    __builtin_memcpy(m[t], products, static_cast<size_t>(w.gates) * sizeof(float));
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

// gates [24]: mixes on entry; on return pre [4], post [4], comb [16]. Scalars for one token,
// vectors for as many as they have lanes.
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

void ComputeAllGates(const cpu::HyperWeights& w, int64_t count, float (*m)[kGates]) {
  constexpr int64_t kFewTokens = 4;  // below, scalars are faster
  int64_t t = 0;
  for (; count - t >= kFewTokens; t += kLanes) {
    const int64_t n = count - t < kLanes ? count - t : kLanes;
    float lanes[kGates][kLanes] = {};
    F32 gates[kGates];
    for (int64_t i = 0; i < w.gates; ++i) {
      for (int64_t lane = 0; lane < n; ++lane) {
        lanes[i][lane] = m[t + lane][i];
      }
      gates[i] = Load(lanes[i]);
    }
    ComputeGates<VectorOps>(w, gates);
    for (int64_t i = 0; i < w.gates; ++i) {
      Store(lanes[i], gates[i]);
      for (int64_t lane = 0; lane < n; ++lane) {
        m[t + lane][i] = lanes[i][lane];
      }
    }
  }
  for (; t < count; ++t) {
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

// A chain that is -0 is stored as +0, which adds the same to a sum that started from +0.
void HyperChains(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first,
                 int64_t end) {
  const int64_t width = kStreams * rows.d;
  const int64_t vectors = CountVectors(w);
  MixSums sums;
  SumBlocks(w, width, rows.streams, rows.count, first, end, sums, [&](int64_t block) {
    float* chains = rows.chains + block * rows.count * cpu::kHyperLanes;
    for (int64_t t = 0; t < rows.count; ++t) {
      for (int64_t v = 0; v < vectors; ++v) {
        Store(chains + t * cpu::kHyperLanes + v * kLanes, sums[t][v]);
      }
    }
    ClearSums(rows.count, sums);
  });
  for (int64_t t = 0; t < rows.count; ++t) {
    ForSquareChains(rows.streams + t * width, width, first, end, [&](int64_t block, float chain) {
      rows.chains[(block * rows.count + t) * cpu::kHyperLanes + kGates] = chain;
    });
  }
}

void HyperPre(const cpu::HyperWeights& w, const cpu::HyperRows& rows, int64_t first, int64_t end) {
  const int64_t width = kStreams * rows.d;
  int64_t count = 0;
  for (int64_t begin = first; begin < end; begin += count) {
    float m[kTile][kGates];
    if (rows.chains == nullptr && end - begin >= kLanes) {
      count = end - begin < kTile ? (end - begin) / kLanes * kLanes : kTile;
      MixTile(w, rows.d, rows.streams + begin * width, count, m);
    } else {
      count = end - begin < kTokens ? end - begin : kTokens;
      Mix(w, rows, begin, count, m);
    }
    ComputeAllGates(w, count, m);
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

}  // namespace fathom::KERNEL_ISA
