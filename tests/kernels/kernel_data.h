// Inputs for tests of backends: owned matrices, random numbers, batches, rotation tables.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/reference/quantize.h"
#include "kernels/rope.h"

namespace fathom::testing {

// A matrix with its memory.
template <class T>
struct Owned {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<T> data;

  Owned() = default;
  Owned(std::int64_t n_rows, std::int64_t n_cols, T value = {})
      : rows(n_rows), cols(n_cols), data(static_cast<std::size_t>(n_rows * n_cols), value) {}

  Matrix<T> view() { return {data.data(), rows, cols}; }
  Matrix<const T> view() const { return {data.data(), rows, cols}; }
  T& at(std::int64_t row, std::int64_t col) {
    return data[static_cast<std::size_t>(row * cols + col)];
  }
  const T& at(std::int64_t row, std::int64_t col) const {
    return data[static_cast<std::size_t>(row * cols + col)];
  }
};

// Rows of up to 16 sequences, each of which has one block of its own, in the order of the matrix.
inline BlockRows OneBlockEach(Matrix<std::uint8_t> rows, std::int64_t n_sequences) {
  static constexpr std::int32_t kTable[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::int64_t per_sequence = rows.rows / n_sequences;
  return {.data = rows.data,
          .block_stride = per_sequence * rows.cols,
          .rows_per_block = per_sequence > 0 ? per_sequence : 1,
          .row_bytes = rows.cols,
          .table = kTable,
          .table_width = 1};
}

// Cached keys with their memory.
struct OwnedKeys {
  KeyLayout layout;
  Owned<std::uint8_t> bytes;

  OwnedKeys() = default;
  OwnedKeys(std::int64_t n_rows, const KeyLayout& key_layout)
      : layout(key_layout), bytes(n_rows, KeyBytes(key_layout)) {}
  // keys [.., head_dim], packed.
  OwnedKeys(const Owned<Bf16>& keys, const KeyLayout& key_layout)
      : OwnedKeys(keys.rows, key_layout) {
    for (std::int64_t row = 0; row < keys.rows; ++row) {
      PackKey(keys.view().Row(row), layout, bytes.view().Row(row));
    }
  }

  KeyRows view(std::int64_t n_sequences = 1) {
    return {OneBlockEach(bytes.view(), n_sequences), layout};
  }
  Owned<Bf16> Unpacked() const {
    Owned<Bf16> keys(bytes.rows, layout.head_dim);
    for (std::int64_t row = 0; row < keys.rows; ++row) {
      UnpackKey(bytes.view().Row(row), layout, keys.view().Row(row));
    }
    return keys;
  }
};

// Random numbers that are the same on every platform: std::normal_distribution is not.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t Bits() { return static_cast<std::uint32_t>(engine_()); }
  int Below(int n) { return static_cast<int>(Bits() % static_cast<std::uint32_t>(n)); }
  // Uniform in [-1, 1).
  float Unit() { return static_cast<float>(static_cast<std::int32_t>(Bits())) * 0x1p-31f; }
  // Bell-shaped, standard deviation 1.
  float Normal() { return Unit() + Unit() + Unit(); }

  Owned<Bf16> Bf16s(std::int64_t rows, std::int64_t cols, float scale = 1.0f) {
    Owned<Bf16> m(rows, cols);
    for (Bf16& x : m.data) x = ToBf16(scale * Normal());
    return m;
  }
  Owned<float> Floats(std::int64_t rows, std::int64_t cols, float scale = 1.0f) {
    Owned<float> m(rows, cols);
    for (float& x : m.data) x = scale * Normal();
    return m;
  }
  Owned<std::uint8_t> Bytes(std::int64_t rows, std::int64_t cols) {
    Owned<std::uint8_t> m(rows, cols);
    for (std::uint8_t& x : m.data) x = static_cast<std::uint8_t>(Bits());
    return m;
  }

 private:
  std::mt19937 engine_;
};

// A batch with its memory. Add the segments, then take the view.
class Batch {
 public:
  // n tokens of `sequence` from `first_position` on.
  Batch& Add(std::int32_t sequence, std::int32_t first_position, std::int32_t n) {
    const auto index = static_cast<std::int32_t>(segments_.size());
    segments_.push_back({.sequence = sequence,
                         .first_row = static_cast<std::int32_t>(tokens_.size()),
                         .n_tokens = n,
                         .first_position = first_position});
    for (std::int32_t i = 0; i < n; ++i) {
      tokens_.push_back(0);
      positions_.push_back(first_position + i);
      segment_of_row_.push_back(index);
    }
    return *this;
  }
  std::vector<Token>& tokens() { return tokens_; }
  BatchView view() const { return {tokens_, positions_, segment_of_row_, segments_}; }

 private:
  std::vector<Token> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> segment_of_row_;
  std::vector<Segment> segments_;
};

// cos and sin for the rows of a batch.
struct RopeTable {
  Owned<float> cos;
  Owned<float> sin;

  RopeTable(std::span<const std::int32_t> positions, std::span<const float> frequencies)
      : cos(std::ssize(positions), std::ssize(frequencies)),
        sin(std::ssize(positions), std::ssize(frequencies)) {
    for (std::int64_t row = 0; row < cos.rows; ++row) {
      RopeAngles(positions[static_cast<std::size_t>(row)], frequencies, cos.view().Row(row),
                 sin.view().Row(row));
    }
  }
  RopeRows view() const { return {cos.view(), sin.view()}; }
};

template <class T>
const std::byte* AsBytes(const Owned<T>& m) {
  return reinterpret_cast<const std::byte*>(m.data.data());
}

inline double ToDouble(Bf16 x) { return static_cast<double>(ToFloat(x)); }

}  // namespace fathom::testing
