// Rows of activations in the order in which threads read them for products of few rows.
//
// Four threads, a quad, hold the 16 lanes of a row of a weight, four each. They read the numbers of
// 128 columns as vectors of four words, so that the vectors of a quad are neighbours in memory.
// Vector v of thread q is at 4 * v + q.
#pragma once

#include <stdint.h>

#include "kernels/gpu/device/vector_types.h"
#include "kernels/gpu/limits.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

inline constexpr int64_t kFewRows = 8;  // of activations, at most
// The fewest and the most rows of a weight of a block of threads, as powers of two. More sums of
// many rows of activations would need too many registers.
inline constexpr int kLeastProductShift = 3;
constexpr int MostProductShift(int64_t rows) { return rows <= 4 ? 5 : 4; }

inline constexpr int kQuadThreads = 4;
inline constexpr int kQuadLanes = 4;  // lanes of a thread

// For FP8 weights: 128 numbers. Vector 4 h + l has the columns 64 h + 4 c + 0 ... 3 of lane
// c = 4 q + l.
inline constexpr int kNumberVectors = 8;

// For FP4 weights: seven words for each lane: the columns 8 c + 0 ... 3 and 4 ... 7 as bytes of
// their integers (codes.h) in base 256, the lowest digits first, and -64 * the sum of the integers.
inline constexpr int kDigitWords = 7;
inline constexpr int kDigitVectors = kDigitWords;  // of a thread

inline constexpr int64_t kVectorBytes = sizeof(FourWords);
static_assert(sizeof(FourFloats) == kVectorBytes);

// Returns true if the codes of a weight can be read as vectors. Other addresses are legal and slow.
inline bool HasVectors(const Weight& w) {
  return reinterpret_cast<uintptr_t>(w.data) % sizeof(TwoWords) == 0;
}

// Rows of the vectors of k columns.
struct LaneRows {
  const FourFloats* numbers = nullptr;  // [rows, k / 128, kNumberVectors, kQuadThreads]
  const FourWords* digits = nullptr;    // [rows, k / 128, kDigitVectors, kQuadThreads]
  const float* scales = nullptr;        // [rows, k / 128]
  int64_t rows = 0;
};

}  // namespace fathom::kernels::gpu
