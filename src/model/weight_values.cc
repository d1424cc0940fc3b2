#include "model/weight_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/lost_pages.h"
#include "model/model_tensors.h"

namespace fathom::model {
namespace {

constexpr std::uint8_t kE8m0NaN = 255;

template <class T>
T LoadUnaligned(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

bool IsScale(std::string_view name) { return name.ends_with(".scale"); }

template <class Id>
std::optional<std::string> FindBadId(std::span<const std::byte> ids, std::int64_t n_experts) {
  for (std::size_t i = 0; i < ids.size() / sizeof(Id); ++i) {
    const std::int64_t id = LoadUnaligned<Id>(ids.data() + i * sizeof(Id));
    if (id < 0 || id >= n_experts) {
      return fmt::format("expected expert ids 0 to {}, found {} at element {}", n_experts - 1, id,
                         i);
    }
  }
  return std::nullopt;
}

// Ignores values of a wrong type: the type is reported where the tensor is bound.
std::optional<std::string> FindBadValue(const Checkpoint::Tensor& tensor,
                                        const ModelConfig& config) {
  const bool is_scale = IsScale(tensor.name);
  const std::int64_t n_experts = config.n_routed_experts;
  switch (tensor.view.dtype) {
    case DType::kF8E8M0:
    case DType::kU8:
      return is_scale ? FindBadScale(tensor.view.bytes, ScaleFormat::kE8m0) : std::nullopt;
    case DType::kF32:
      return is_scale ? FindBadScale(tensor.view.bytes, ScaleFormat::kF32) : std::nullopt;
    case DType::kI64:
      return is_scale ? std::nullopt : FindBadId<std::int64_t>(tensor.view.bytes, n_experts);
    case DType::kI32:
      return is_scale ? std::nullopt : FindBadId<std::int32_t>(tensor.view.bytes, n_experts);
    case DType::kU32:
      return is_scale ? std::nullopt : FindBadId<std::uint32_t>(tensor.view.bytes, n_experts);
    default:
      return std::nullopt;
  }
}

bool Overlaps(const MemoryPieces& share, std::span<const std::byte> bytes) {
  const auto end = [](std::span<const std::byte> piece) { return piece.data() + piece.size(); };
  return std::ranges::any_of(share, [&](std::span<const std::byte> piece) {
    return std::max(piece.data(), bytes.data()) < std::min(end(piece), end(bytes));
  });
}

}  // namespace

std::optional<std::string> FindBadScale(std::span<const std::byte> scales, ScaleFormat format) {
  if (format == ScaleFormat::kE8m0) {
    if (scales.empty()) return std::nullopt;
    const void* found = std::memchr(scales.data(), kE8m0NaN, scales.size());
    return found == nullptr
               ? std::nullopt
               : std::optional(fmt::format("expected finite scales, found NaN (byte 255) at "
                                           "element {}",
                                           static_cast<const std::byte*>(found) - scales.data()));
  }
  for (std::size_t i = 0; i < scales.size() / sizeof(float); ++i) {
    if (!std::isfinite(LoadUnaligned<float>(scales.data() + i * sizeof(float)))) {
      return fmt::format("expected finite scales, found NaN or infinity at element {}", i);
    }
  }
  return std::nullopt;
}

Status CheckExpertScales(const ExpertWeights& expert, std::string_view moe, std::int32_t id) {
  constexpr std::string_view kNames[] = {"w1", "w3", "w2"};
  const Weight* const weights[] = {&expert.w1, &expert.w3, &expert.w2};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (const auto bad = FindBadScale(weights[i]->ScaleBytes(), weights[i]->scale_format)) {
      return MakeError(ErrorCode::kInvalidData, "{}.experts.{}.{}.scale: {}", moe, id, kNames[i],
                       *bad);
    }
  }
  return {};
}

Status CheckWeightValues(const Checkpoint& checkpoint, const ModelConfig& config,
                         WeightValues which, ThreadTeam& team, const MemoryPieces* share) {
  std::vector<const Checkpoint::Tensor*> tensors;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if ((IsScale(tensor.name) || IsExpertTable(tensor.name)) &&
        (which == WeightValues::kAll || !IsRoutedExpert(tensor.name)) &&
        (share == nullptr || Overlaps(*share, tensor.view.bytes))) {
      tensors.push_back(&tensor);
    }
  }
  constexpr std::size_t kShown = 20;
  std::mutex mutex;
  std::vector<std::string> problems;
  team.For(std::ssize(tensors), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Checkpoint::Tensor& tensor = *tensors[static_cast<std::size_t>(i)];
      if (const std::optional<std::string> problem = FindBadValue(tensor, config)) {
        const std::lock_guard lock(mutex);
        problems.push_back(fmt::format("{}: {}", tensor.name, *problem));
      }
    }
  });
  if (problems.empty()) return CheckLostPages();
  std::sort(problems.begin(), problems.end());
  problems.resize(std::min(problems.size(), kShown));
  return MakeError(ErrorCode::kInvalidData, "{}: invalid values:\n  {}", checkpoint.path().string(),
                   fmt::join(problems, "\n  "));
}

}  // namespace fathom::model
