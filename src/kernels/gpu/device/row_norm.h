// The norm of a row (docs/numerics.md 4) by a block.
//
// A row is read in parts: each thread holds some vectors of a part, numbers and weights, so that
// what is normalised at the end has been loaded before the sum. The numbers of a part lie in shared
// memory, from which the first threads take them for the 32 lanes of the sum.
#pragma once

#include <stdint.h>

#include "base/float_types.h"
#include "kernels/gpu/device/ahead.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/vectors.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

inline constexpr int kHeldVectors = 2;  // vectors that a thread holds
inline constexpr int kHeldNumbers = kHeldVectors * EightBf16::kNumbers;
inline constexpr int kPartNumbers = kHeldNumbers * kMaxBlockThreads;  // the most of a part

struct NormRow {
  const Bf16* x = nullptr;
  const Bf16* weight = nullptr;
  int64_t n = 0;
};

// Vectors of the part of the row that begins at `first`.
struct HeldPart {
  int64_t first = 0;
  EightBf16 x[kHeldVectors];
  EightBf16 weight[kHeldVectors];
};

// Returns the first column of the thread's vector i.
GPU_DEVICE int64_t HeldColumn(const HeldPart& held, int i) {
  return held.first + int64_t{EightBf16::kNumbers} * (ThreadX() + i * BlockThreads());
}

GPU_DEVICE bool IsAlignedRow(int64_t n, const Bf16* row) {
  return n % EightBf16::kNumbers == 0 && IsAligned<EightBf16>(row);
}

GPU_DEVICE HeldPart HoldPart(const NormRow& row, int64_t first) {
  HeldPart held = {.first = first, .x = {}, .weight = {}};
  GPU_UNROLL
  for (int i = 0; i < kHeldVectors; ++i) {
    const int64_t column = HeldColumn(held, i);
    const int64_t n = row.n - column;
    if (n > 0) {
      held.x[i] = LoadBf16<EightBf16>(row.x + column, n, IsAlignedRow(row.n, row.x));
      held.weight[i] = LoadBf16<EightBf16>(row.weight + column, n, IsAlignedRow(row.n, row.weight));
    }
  }
  return held;
}

// Returns number k of the thread's vector i, normalised by r.
GPU_DEVICE Bf16 NormalNumber(const HeldPart& held, int i, int k, float r) {
  return ToBf16(Number(held.weight[i], k) * (Number(held.x[i], k) * r));
}

// Returns 1 / sqrt(mean of the squares + eps) of the row to all threads, and the last part of the
// row in `held`, which has the first part before. `numbers`: shared memory for kPartNumbers floats.
// Ends with a barrier: shared memory can be written again.
template <class Shared>
GPU_DEVICE float FactorOfRow(const NormRow& row, float eps, Shared& numbers, HeldPart& held) {
  constexpr int kLanes = 2 * kGroupThreads;
  constexpr int kBatch = kAhead * kLanes;
  GPU_SHARED(float, factor, 1);
  float lane = 0.0f;
  for (;;) {
    const int64_t next = held.first + int64_t{kHeldNumbers} * BlockThreads();
    const int64_t n = (row.n < next ? row.n : next) - held.first;
    const int64_t end = (n + kBatch - 1) / kBatch * kBatch;
    GPU_UNROLL
    for (int i = 0; i < kHeldVectors; ++i) {
      const int64_t at = HeldColumn(held, i) - held.first;
      GPU_UNROLL
      for (int k = 0; k < EightBf16::kNumbers && at < end; ++k) {
        numbers[at + k] = Number(held.x[i], k);  // beyond the row zeros, which change no lane
      }
    }
    SyncBlock();
    if (ThreadX() < kLanes && n > 0) {
      ForEachAhead(
          end / kLanes, [&](int64_t i) -> float { return numbers[i * kLanes + ThreadX()]; },
          [&](float x) { lane = Fma(x, x, lane); });
    }
    if (next >= row.n) break;
    SyncBlock();
    held = HoldPart(row, next);
  }
  if (ThreadX() < WaveSize()) {
    const float sum = TreeOfGroup(lane + ShuffleXor(lane, kGroupThreads));
    if (ThreadX() == 0) factor[0] = InverseRoot(sum, row.n, eps);
  }
  SyncBlock();
  return factor[0];
}

}  // namespace fathom::kernels::gpu
