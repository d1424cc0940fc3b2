// The products that the probe computes: random ones of several kinds, from a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/namespaces.h"
#include "tests/emulator/matrix_unit.h"
#include "tests/gpu/arithmetic/arithmetic.h"

namespace fathom::probe {

// The place of an element in C and D of all cases.
constexpr std::int64_t SumAt(std::int64_t index, int row, int column) {
  return (index * kRows + row) * kColumns + column;
}

struct Cases {
  std::int64_t n = 0;
  std::vector<std::uint32_t> a;
  std::vector<std::uint32_t> b;
  std::vector<float> c;

  // The operands of an element: K numbers of a row of A, or of a column of B.
  std::vector<emulator::MatrixNumber> Row(emulator::MatrixFormat format, std::int64_t index,
                                          int row) const;
  std::vector<emulator::MatrixNumber> Column(emulator::MatrixFormat format, std::int64_t index,
                                             int column) const;
};

// Kinds, in turn: any bits; numbers of one size; numbers of any size; products that cancel;
// subnormal numbers and zeros; accumulators far above and below the products.
Cases MakeCases(emulator::MatrixFormat format, std::int64_t n, std::uint32_t seed);

// Returns the products with A's first rows and B's columns exchanged: the first kColumns rows of D
// are then transposed.
Cases Swapped(const Cases& cases);

// Returns the products with every row and column of D elsewhere: row r at (r + 5) % kRows, column k
// at (k + 3) % kColumns.
Cases Moved(const Cases& cases);
inline constexpr int kRowMove = 5;
inline constexpr int kColumnMove = 3;

}  // namespace fathom::probe
