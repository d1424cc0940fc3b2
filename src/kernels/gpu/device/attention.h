// Arguments of the kernels in attention.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

inline constexpr int kAttentionBlock = 64;        // slots that share one maximum
inline constexpr std::int64_t kScoreChain = 128;  // dimensions per fma chain of a score

// Runs a block per head of a row. Dynamic shared memory: floats, first [kAttentionBlock, chains of
// head_dim], then [head_dim].
struct AttentionArguments {
  Matrix<const Bf16> q;     // [t, heads * head_dim]
  Matrix<const Bf16> keys;  // the batch's own keys [rows of the batch, head_dim]
  Matrix<const std::int32_t> selected;
  Matrix<const std::uint8_t> gathered;
  const float* sinks = nullptr;
  std::int64_t heads = 0;
  std::int64_t sliding_window = 0;
  RopeRows rope;
  float scale = 0.0f;  // 1 / sqrt(head_dim)
  DeviceBatch batch;
  WindowCache window;
  KeyRows compressed;
  int ratio = 0;
  Matrix<Bf16> out;
  std::uint64_t* fault = nullptr;
};

// Runs a block per row of keys.
struct AppendWindowArguments {
  Matrix<const Bf16> keys;
  DeviceBatch batch;
  WindowCache cache;
};

// Runs a block per row of out.
struct CopyRowsArguments {
  const SequenceRow* rows = nullptr;
  KeyRows cached;
  CacheShard share;
  Matrix<std::uint8_t> out;
};

}  // namespace fathom::kernels::gpu
