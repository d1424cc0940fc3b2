// WeightScope: binds tensors of a checkpoint as the weights of one part of a model.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/integer_math.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_binder.h"
#include "model/weights.h"

namespace fathom {

// Shared by all scopes of one binding.
struct WeightSource {
  const Checkpoint& checkpoint;
  WeightBinder& binder;
  std::vector<std::unique_ptr<std::byte[]>>& aligned_copies;

  // Returns the tensor's bytes at an address aligned for its elements; nullptr: no tensor.
  const std::byte* Aligned(const TensorView* tensor) {
    if (tensor == nullptr || IsAligned(*tensor)) {
      return tensor == nullptr ? nullptr : tensor->bytes.data();
    }
    const std::size_t size = tensor->bytes.size();
    aligned_copies.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    std::memcpy(aligned_copies.back().get(), tensor->bytes.data(), size);
    return aligned_copies.back().get();
  }

  // Converts integers of 32 bits to integers of 64 bits.
  const std::byte* Widened(const TensorView& tensor) {
    const std::size_t n = tensor.bytes.size() / sizeof(std::uint32_t);
    aligned_copies.push_back(std::make_unique_for_overwrite<std::byte[]>(n * sizeof(std::int64_t)));
    std::byte* const to = aligned_copies.back().get();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));
      const std::int64_t value =
          tensor.dtype == DType::kI32 ? std::int64_t{static_cast<std::int32_t>(bits)} : bits;
      std::memcpy(to + i * sizeof(value), &value, sizeof(value));
    }
    return to;
  }
};

// Binds the tensors whose names begin with a prefix. The source must outlive this object.
class WeightScope {
 public:
  WeightScope(WeightSource& source, std::string prefix)
      : source_(source), prefix_(std::move(prefix)) {}

  // Returns the prefix without the dot at its end.
  std::string Name() const { return prefix_.substr(0, prefix_.size() - 1); }

  WeightScope Inner(std::string_view name) const { return {source_, prefix_ + std::string(name)}; }

  template <class T>
  std::span<const T> Vector(std::string_view name, DType dtype, std::int64_t size) const {
    const std::byte* data = Data(Bind(name, {dtype}, {size}));
    return {reinterpret_cast<const T*>(data), data == nullptr ? 0 : static_cast<std::size_t>(size)};
  }

  template <class T>
  Matrix<const T> Table(std::string_view name, DType dtype, std::int64_t rows,
                        std::int64_t cols) const {
    const std::byte* data = Data(Bind(name, {dtype}, {rows, cols}));
    return {reinterpret_cast<const T*>(data), rows, cols};
  }

  // The ids are I64 in the published files; other writers use 32 bits.
  Matrix<const std::int64_t> Ids(std::string_view name, std::int64_t rows,
                                 std::int64_t cols) const {
    const TensorView* ids = Bind(name, {DType::kI64, DType::kI32, DType::kU32}, {rows, cols});
    const std::byte* data =
        ids == nullptr || ids->dtype == DType::kI64 ? Data(ids) : source_.Widened(*ids);
    return {reinterpret_cast<const std::int64_t*>(data), rows, cols};
  }

  Weight Bf16Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    Weight weight{.format = WeightFormat::kBf16, .n = n, .k = k};
    weight.data = Data(Bind(name, ".weight", {DType::kBF16}, {n, k}));
    return weight;
  }

  // E4M3 with one scale per 128 x 128, stored as E8M0, which some writers call U8, or F32.
  Weight Fp8Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    Weight weight{.format = WeightFormat::kFp8, .n = n, .k = k};
    weight.data = Data(Bind(name, ".weight", {DType::kF8E4M3}, {n, k}));
    const TensorView* scales = Bind(name, ".scale", {DType::kF8E8M0, DType::kU8, DType::kF32},
                                    {DivideUp(n, kFp8Block), DivideUp(k, kFp8Block)});
    weight.scales = Data(scales);
    if (scales != nullptr && scales->dtype == DType::kF32) {
      weight.scale_format = ScaleFormat::kF32;
    }
    return weight;
  }

  RowParallelWeight RowParallel(std::string_view name, std::int64_t n, std::int64_t k) const {
    RowParallelWeight weight{.whole = Fp8Matrix(name, n, k)};
    weight.whole.k_parts = RowParallelParts(k);
    return weight;
  }

  // wo_a is FP8 in the published files and BF16 in some repacks.
  Weight Fp8OrBf16Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    return FindDType(name) == DType::kBF16 ? Bf16Matrix(name, n, k) : Fp8Matrix(name, n, k);
  }

  // Routed experts are FP4 (two values a byte, one scale per row and 32 columns) or FP8. Bytes of
  // FP4 are I8 in the published files; others write U8, or F4 with the number of values.
  Weight ExpertMatrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    if (FindDType(name) == DType::kF8E4M3) return Fp8Matrix(name, n, k);
    Weight weight{.format = WeightFormat::kFp4, .n = n, .k = k};
    const TensorForm forms[] = {{{DType::kI8, DType::kU8}, {n, k / 2}}, {{DType::kF4}, {n, k}}};
    weight.data = Data(source_.binder.Bind(fmt::format("{}{}.weight", prefix_, name), forms));
    weight.scales = Data(Bind(name, ".scale", {DType::kF8E8M0, DType::kU8}, {n, k / kFp4Block}));
    return weight;
  }

  HcWeights HyperConnection(std::string_view name, std::int64_t hidden, bool head) const {
    const std::int64_t rows = head ? kHcHeadRows : kHcBlockRows;
    return {
        .fn = Floats(name, "_fn", {rows, 4 * hidden}),
        .base = Floats(name, "_base", {rows}),
        .scale = Floats(name, "_scale", {head ? 1 : 3}),
    };
  }

 private:
  const TensorView* Bind(std::string_view name, std::string_view suffix, std::vector<DType> dtypes,
                         std::vector<std::int64_t> shape) const {
    return source_.binder.Bind(fmt::format("{}{}{}", prefix_, name, suffix), std::move(dtypes),
                               std::move(shape));
  }
  const TensorView* Bind(std::string_view name, std::vector<DType> dtypes,
                         std::vector<std::int64_t> shape) const {
    return Bind(name, "", std::move(dtypes), std::move(shape));
  }

  const float* Floats(std::string_view name, std::string_view suffix,
                      std::vector<std::int64_t> shape) const {
    return reinterpret_cast<const float*>(
        Data(Bind(name, suffix, {DType::kF32}, std::move(shape))));
  }

  std::optional<DType> FindDType(std::string_view name) const {
    const TensorView* tensor = source_.checkpoint.Find(fmt::format("{}{}.weight", prefix_, name));
    return tensor == nullptr ? std::nullopt : std::optional(tensor->dtype);
  }

  const std::byte* Data(const TensorView* tensor) const { return source_.Aligned(tensor); }

  WeightSource& source_;
  std::string prefix_;
};

// Binds the block whose tensors the scope names.
BlockWeights BindBlock(const WeightScope& scope, const ModelConfig& config, std::int64_t index,
                       int ratio, bool hash_routed);

}  // namespace fathom
