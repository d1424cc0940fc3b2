// BufferLayout: cuts one piece of memory into matrices.
//
// The same code that hands out the matrices measures the memory they need: run it once on a
// BufferLayout without memory, allocate bytes(), run it again on the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/tensor.h"

namespace fathom {

class BufferLayout {
 public:
  // Only measures: the matrices it hands out have a null address.
  BufferLayout() = default;
  // `memory` is aligned to 64 bytes and outlives the matrices.
  explicit BufferLayout(std::span<std::byte> memory) : memory_(memory) {}

  // The next matrix; its address is a multiple of 64 bytes.
  template <class T>
  Matrix<T> Add(std::int64_t rows, std::int64_t cols) {
    const std::int64_t begin = bytes_;
    const auto size = rows * cols * static_cast<std::int64_t>(sizeof(T));
    bytes_ += RoundUp(size, 64);
    if (memory_.data() == nullptr) {
      return {nullptr, rows, cols};
    }
    Check(bytes_ <= static_cast<std::int64_t>(memory_.size()), "carving more than was measured");
    return {reinterpret_cast<T*>(memory_.data() + begin), rows, cols};
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  std::span<std::byte> memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace fathom
