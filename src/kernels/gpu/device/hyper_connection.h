// Arguments of the kernels in hyper_connection.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/limits.h"
#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

inline constexpr int kMixes = 2 * kStreams + kStreams * kStreams;  // rows of fn

// Chains of products: a row of the streams has a chain for every kMixChain numbers and every row of
// fn, and one of the numbers with themselves.
inline constexpr std::int64_t kMixChain = 192;  // numbers per fma chain
constexpr std::int64_t MixChains(std::int64_t width) { return (width + kMixChain - 1) / kMixChain; }
inline constexpr std::int64_t kChainRows = 32;  // rows of streams whose chains a block computes
// Floats of the chains of kMixChain numbers: first the numbers with themselves, then with each row
// of fn. The head, whose fn has few rows, leaves the last floats out.
inline constexpr int kChainFloats = 1 + kMixes;

// Runs a block per chain of kMixChain numbers and kChainRows rows: their chains with all rows of
// fn. Dynamic shared memory: ChainTileBytes.
struct HcChainsArguments {
  Matrix<const Bf16> streams;  // [t, 4 d]
  const float* fn = nullptr;   // [n_mixes, 4 d]
  std::int64_t n_mixes = 0;    // 24; for the head 4
  float* chains = nullptr;     // [t, MixChains(4 d), kChainFloats]
};

constexpr std::int64_t RowOfChainsBytes(std::int64_t width) {
  return MixChains(width) * kChainFloats * 4;
}

// Dynamic shared memory is arranged by vectors of four floats: a row of fn or of the streams has a
// vector more than a chain needs, so that eight neighbouring rows are in different banks.
inline constexpr std::int64_t kChainVectors = kMixChain / 4;
inline constexpr std::int64_t kChainStride = kChainVectors + 1;
constexpr std::int64_t ChainTileBytes(std::int64_t n_mixes, std::int64_t n_rows) {
  return (n_mixes + (n_rows < kChainRows ? n_rows : kChainRows)) * kChainStride * 16;
}

// Without data in `post`, the head: no mix. Runs PreBlocks blocks per row. Dynamic shared memory:
// MixSumBytes.
struct HcPreArguments {
  Matrix<const Bf16> streams;     // [t, 4 d]
  const float* chains = nullptr;  // of HcChains
  HcWeights w;
  std::int64_t sinkhorn_iterations = 0;
  float eps = 0.0f;
  float norm_eps = 0.0f;
  Matrix<Bf16> out;    // [t, d]
  Matrix<float> post;  // [t, 4]
  Matrix<float> comb;  // [t, 16]
};

// Returns the blocks of a row: a block for its mix comes before the others, if it has one.
inline constexpr std::int64_t kPreColumns = std::int64_t{8} * kMaxBlockThreads;  // of a block
constexpr std::int64_t PreBlocks(std::int64_t d, bool has_mix) {
  return (d + kPreColumns - 1) / kPreColumns + (has_mix ? 1 : 0);
}

inline constexpr int kMixBatch = 16;  // chains that are loaded together
constexpr std::int64_t MixSumBytes(std::int64_t n_chains) {
  return (n_chains + kMixBatch - 1) / kMixBatch * kMixBatch * kChainFloats * 4;
}

// Runs a thread per kPostNumbers neighbouring numbers of y, of which the last of a row can be
// fewer. Eight would take twice the registers and leave half of the threads to a row of a step.
inline constexpr std::int64_t kPostNumbers = 4;
struct HcPostArguments {
  Matrix<const Bf16> y;
  Matrix<const float> post;
  Matrix<const float> comb;
  Matrix<Bf16> streams;
};

// Runs a thread per number of the streams.
struct AddToStreamsArguments {
  Matrix<const Bf16> x;
  Matrix<Bf16> streams;
};

// Runs a thread per number of a mean.
struct MeanOfStreamsArguments {
  Matrix<const Bf16> streams;
  std::int64_t first_column = 0;
  Matrix<Bf16> out;
};

// Runs a thread per number of out.
struct AddArguments {
  Matrix<const float> x;
  Matrix<const float> y;
  Matrix<float> out;
};

}  // namespace fathom::kernels::gpu
