#include "tests/gpu/arithmetic/cases.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace fathom::probe {
namespace {

using emulator::MatrixFormat;

constexpr int kKinds = 6;

int CodeBits(MatrixFormat format) { return format == MatrixFormat::kE4m3 ? 8 : 16; }
int FractionBits(MatrixFormat format) {
  return format == MatrixFormat::kF16 ? 10 : format == MatrixFormat::kBf16 ? 7 : 3;
}
int ExponentBits(MatrixFormat format) { return CodeBits(format) - 1 - FractionBits(format); }

// Makes numbers of a format as their codes.
class Codes {
 public:
  Codes(MatrixFormat format, std::uint32_t seed) : format_(format), random_(seed) {}

  std::uint32_t Any() { return Random(0, (1u << CodeBits(format_)) - 1); }
  // With exponents around that of 1, at most `spread` away.
  std::uint32_t Finite(std::uint32_t spread) {
    const std::uint32_t bias = (1u << (ExponentBits(format_) - 1)) - 1;
    const std::uint32_t most = std::min(spread, bias - 1);
    const std::uint32_t exponent = bias + Random(0, 2 * most) - most;
    return Random(0, 1) << (CodeBits(format_) - 1) | exponent << FractionBits(format_) |
           Random(0, (1u << FractionBits(format_)) - 1);
  }
  std::uint32_t Subnormal() {
    return Random(0, 1) << (CodeBits(format_) - 1) | Random(0, (1u << FractionBits(format_)) - 1);
  }
  std::uint32_t Negated(std::uint32_t code) const { return code ^ 1u << (CodeBits(format_) - 1); }
  std::uint32_t Random(std::uint32_t first, std::uint32_t last) {
    return std::uniform_int_distribution<std::uint32_t>(first, last)(random_);
  }
  float Gauss() { return std::normal_distribution<float>()(random_); }

  std::uint32_t OfKind(int kind) {
    switch (kind) {
      case 0:
        return Any();
      case 1:
        return Finite(1);
      case 4:
        return Random(0, 2) == 0 ? Finite(30) : Random(0, 3) == 0 ? 0 : Subnormal();
      default:
        return Finite(30);
    }
  }

 private:
  MatrixFormat format_;
  std::mt19937 random_;
};

std::uint32_t CodeAt(const std::uint32_t* words, int bits, int i) {
  const int in_word = 32 / bits;
  return words[i / in_word] >> (i % in_word * bits) & ((1u << bits) - 1);
}
void SetCode(std::uint32_t* words, int bits, int i, std::uint32_t code) {
  const int in_word = 32 / bits;
  const std::uint32_t mask = (1u << bits) - 1;
  words[i / in_word] =
      (words[i / in_word] & ~(mask << (i % in_word * bits))) | code << (i % in_word * bits);
}

// A vector of 32 bytes. Those that cancel are x, -x, y, -y, ... against a vector of pairs.
void FillVector(Codes& codes, MatrixFormat format, int kind, bool is_column, std::uint32_t* words) {
  const int n = 256 / CodeBits(format);
  for (int i = 0; i < n; ++i) {
    std::uint32_t code = codes.OfKind(kind);
    if (kind == 3 && i % 2 == 1 && codes.Random(0, 7) != 0) {
      const std::uint32_t before = CodeAt(words, CodeBits(format), i - 1);
      code = is_column ? before : codes.Negated(before);
    }
    SetCode(words, CodeBits(format), i, code);
  }
}

float Accumulator(Codes& codes, int kind) {
  switch (kind) {
    case 0:
      return std::bit_cast<float>(codes.Random(0, 0xFFFFFFFFu));
    case 5:
      return std::ldexp(codes.Gauss(), static_cast<int>(codes.Random(0, 120)) - 60);
    default:
      return codes.Random(0, 3) == 0 ? 0.0f : codes.Gauss();
  }
}

std::vector<emulator::MatrixNumber> Numbers(MatrixFormat format, const std::uint32_t* words) {
  std::vector<emulator::MatrixNumber> numbers;
  for (int i = 0; i < 256 / CodeBits(format); ++i) {
    numbers.push_back(emulator::ToMatrixNumber(format, CodeAt(words, CodeBits(format), i)));
  }
  return numbers;
}

std::int64_t RowAt(std::int64_t index, int row) { return (index * kRows + row) * kRowWords; }
std::int64_t ColumnAt(std::int64_t index, int column) {
  return (index * kColumns + column) * kRowWords;
}
Cases Empty(std::int64_t n) {
  Cases cases = {.n = n};
  cases.a.resize(static_cast<std::size_t>(n * kRows * kRowWords));
  cases.b.resize(static_cast<std::size_t>(n * kColumns * kRowWords));
  cases.c.resize(static_cast<std::size_t>(n * kRows * kColumns));
  return cases;
}

void CopyVector(const std::vector<std::uint32_t>& from, std::int64_t at,
                std::vector<std::uint32_t>& to, std::int64_t to_at) {
  std::memcpy(to.data() + to_at, from.data() + at, kRowWords * sizeof(std::uint32_t));
}

}  // namespace

std::vector<emulator::MatrixNumber> Cases::Row(MatrixFormat format, std::int64_t index,
                                               int row) const {
  return Numbers(format, a.data() + RowAt(index, row));
}

std::vector<emulator::MatrixNumber> Cases::Column(MatrixFormat format, std::int64_t index,
                                                  int column) const {
  return Numbers(format, b.data() + ColumnAt(index, column));
}

Cases MakeCases(MatrixFormat format, std::int64_t n, std::uint32_t seed) {
  Cases cases = Empty(n);
  Codes codes(format, seed);
  for (std::int64_t i = 0; i < n; ++i) {
    const int kind = static_cast<int>(i % kKinds);
    for (int row = 0; row < kRows; ++row) {
      FillVector(codes, format, kind, false, cases.a.data() + RowAt(i, row));
    }
    for (int column = 0; column < kColumns; ++column) {
      FillVector(codes, format, kind, true, cases.b.data() + ColumnAt(i, column));
    }
    for (int sum = 0; sum < kRows * kColumns; ++sum) {
      cases.c[static_cast<std::size_t>(i * kRows * kColumns + sum)] = Accumulator(codes, kind);
    }
  }
  return cases;
}

Cases Swapped(const Cases& cases) {
  Cases swapped = Empty(cases.n);
  for (std::int64_t i = 0; i < cases.n; ++i) {
    for (int k = 0; k < kColumns; ++k) {
      CopyVector(cases.b, ColumnAt(i, k), swapped.a, RowAt(i, k));
      CopyVector(cases.a, RowAt(i, k), swapped.b, ColumnAt(i, k));
      for (int j = 0; j < kColumns; ++j) {
        swapped.c[static_cast<std::size_t>(SumAt(i, k, j))] =
            cases.c[static_cast<std::size_t>(SumAt(i, j, k))];
      }
    }
  }
  return swapped;
}

Cases Moved(const Cases& cases) {
  Cases moved = Empty(cases.n);
  for (std::int64_t i = 0; i < cases.n; ++i) {
    for (int row = 0; row < kRows; ++row) {
      const int to_row = (row + kRowMove) % kRows;
      CopyVector(cases.a, RowAt(i, row), moved.a, RowAt(i, to_row));
      for (int column = 0; column < kColumns; ++column) {
        const int to_column = (column + kColumnMove) % kColumns;
        if (row == 0) CopyVector(cases.b, ColumnAt(i, column), moved.b, ColumnAt(i, to_column));
        moved.c[static_cast<std::size_t>(SumAt(i, to_row, to_column))] =
            cases.c[static_cast<std::size_t>(SumAt(i, row, column))];
      }
    }
  }
  return moved;
}

}  // namespace fathom::probe
