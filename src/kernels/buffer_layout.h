// BufferLayout: lays out matrices in one piece of memory.
//
// The code that lays out the matrices also measures the memory they need: run it once on a
// BufferLayout without memory, allocate bytes(), run it again on the memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/tensor.h"

namespace fathom::kernels {

class BufferLayout {
 public:
  // Only measures: the matrices have a null address.
  BufferLayout() = default;
  // Lays out memory of a backend or of the host, which must be aligned to 64 bytes and outlive the
  // matrices. Does not read or write the memory.
  BufferLayout(std::byte* address, std::int64_t size) : address_(address), size_(size) {}

  // Returns the next matrix, at a multiple of 64 bytes.
  template <class T>
  Matrix<T> Add(std::int64_t rows, std::int64_t cols) {
    const std::int64_t begin = bytes_;
    const auto size = rows * cols * static_cast<std::int64_t>(sizeof(T));
    bytes_ += RoundUp(size, 64);
    if (address_ == nullptr) return {nullptr, rows, cols};
    Check(bytes_ <= size_, "laying out more than was measured");
    return {reinterpret_cast<T*>(address_ + begin), rows, cols};
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace fathom::kernels
