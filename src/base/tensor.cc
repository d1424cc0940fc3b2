#include "base/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <limits>

namespace fathom {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kBool, "BOOL", 8},
    {DType::kF4, "F4", 4},
    {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6},
    {DType::kU8, "U8", 8},
    {DType::kI8, "I8", 8},
    {DType::kF8E5M2, "F8_E5M2", 8},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kI16, "I16", 16},
    {DType::kU16, "U16", 16},
    {DType::kF16, "F16", 16},
    {DType::kBF16, "BF16", 16},
    {DType::kI32, "I32", 32},
    {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},
    {DType::kC64, "C64", 64},
    {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},
    {DType::kU64, "U64", 64},
};
static_assert(std::size(kDTypes) == static_cast<std::size_t>(DType::kU64) + 1);

int Bits(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bits; }

}  // namespace

std::int64_t ElementBytes(DType dtype) { return (Bits(dtype) + 7) / 8; }

std::optional<std::int64_t> TensorBytes(DType dtype, std::span<const std::int64_t> shape) {
  const std::optional<std::int64_t> count = ElementCount(shape);
  if (!count || *count > std::numeric_limits<std::int64_t>::max() / Bits(dtype)) {
    return std::nullopt;
  }
  const std::int64_t bits = *count * Bits(dtype);
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

std::string_view Name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::optional<std::int64_t> ElementCount(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension != 0 && count > std::numeric_limits<std::int64_t>::max() / dimension) {
      return std::nullopt;
    }
    count *= dimension;
  }
  return count;
}

std::string ShapeToString(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace fathom
