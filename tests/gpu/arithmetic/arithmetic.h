// The arguments of the kernels of the arithmetic probe. A case is a product D [64, 8] = A [64, K] *
// B [K, 8] + C: K is 16 numbers of 16 bits or 32 of 8 bits, 32 bytes either way.
#pragma once

#include <cstdint>

namespace fathom::probe {

inline constexpr int kRows = 64;
inline constexpr int kColumns = 8;
inline constexpr int kRowWords = 8;  // of A, and of a column of B: 32 bytes
inline constexpr int kCaseThreads = 128;

// A block of kCaseThreads threads for every case.
struct Arguments {
  const std::uint32_t* a = nullptr;  // [cases, kRows, kRowWords]
  const std::uint32_t* b = nullptr;  // [cases, kColumns, kRowWords]
  const float* c = nullptr;          // [cases, kRows, kColumns]
  float* d = nullptr;
};

}  // namespace fathom::probe
