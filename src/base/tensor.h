// Non-owning row-major views of numbers in memory.
//
// TensorView describes bytes of a file: type and shape are known only at run time. Matrix<T> is for
// kernels: the type is known at compile time, the shape is [rows, cols]. Neither owns memory; its
// owner (a MappedFile, a Buffer) must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/namespaces.h"

namespace fathom {

using Token = std::int32_t;

// The element types of the safetensors format; a model reads some of them.
enum class DType : std::uint8_t {
  kBool,
  kF4,  // E2M1, two in a byte
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,  // in an expert weight: two packed E2M1 values
  kF8E5M2,
  kF8E4M3,
  kF8E5M2Fnuz,
  kF8E4M3Fnuz,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// Returns the bytes of one element, rounded up.
std::int64_t ElementBytes(DType dtype);
// Returns the bytes of a tensor; nullopt if the number does not fit into the type, or if small
// elements do not fill the last byte (all dimensions must be >= 0).
std::optional<std::int64_t> TensorBytes(DType dtype, std::span<const std::int64_t> shape);
// Returns the name in the format: "BF16", "F8_E4M3", ...
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);

// Returns the product of the dimensions; nullopt if it does not fit (all dimensions must be >= 0).
std::optional<std::int64_t> ElementCount(std::span<const std::int64_t> shape);
// Returns "[24, 16384]".
std::string ShapeToString(std::span<const std::int64_t> shape);

// A tensor of a file: read-only bytes with a type and a shape.
struct TensorView {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  // Returns the bytes as elements of T. The caller must have checked dtype; the address may be
  // unaligned.
  template <class T>
  const T* As() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

// A row-major matrix; row i begins at data + i * cols. May be empty.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  constexpr T* Row(std::int64_t i) const { return data + i * cols; }
  std::span<T> RowSpan(std::int64_t i) const { return {Row(i), static_cast<std::size_t>(cols)}; }
  // Returns rows [first, first + count).
  Matrix Rows(std::int64_t first, std::int64_t count) const { return {Row(first), count, cols}; }
  constexpr operator Matrix<const T>() const { return {data, rows, cols}; }
};

template <class T>
std::span<std::byte> AsBytes(Matrix<T> matrix) {
  return std::as_writable_bytes(
      std::span(matrix.data, static_cast<std::size_t>(matrix.rows * matrix.cols)));
}
template <class T>
std::span<const std::byte> AsBytes(Matrix<const T> matrix) {
  return std::as_bytes(std::span(matrix.data, static_cast<std::size_t>(matrix.rows * matrix.cols)));
}

}  // namespace fathom
