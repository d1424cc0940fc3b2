// CheckWeightValues: what only the bytes of a tensor can tell.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>

#include "model/weights.h"

namespace fathom {
namespace {

constexpr std::uint8_t kE8m0NaN = 255;

template <class T>
T LoadUnaligned(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

// A scale that is no number: the index of the first one, or -1.
std::int64_t FirstBadScale(const TensorView& tensor) {
  const std::byte* begin = tensor.bytes.data();
  if (tensor.dtype == DType::kF8E8M0) {
    const void* found = std::memchr(begin, kE8m0NaN, tensor.bytes.size());
    return found == nullptr ? -1 : static_cast<const std::byte*>(found) - begin;
  }
  const auto count = static_cast<std::int64_t>(tensor.bytes.size() / sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(LoadUnaligned<float>(begin + i * 4))) {
      return i;
    }
  }
  return -1;
}

std::optional<Error> CheckTensor(std::string_view name, const TensorView& tensor,
                                 const ModelConfig& config) {
  if (EndsWith(name, ".scale")) {
    const std::int64_t bad = FirstBadScale(tensor);
    if (bad >= 0) {
      return Error{
          ErrorCode::kInvalidData,
          fmt::format("{}: expected finite scales, found NaN{} at element {}", name,
                      tensor.dtype == DType::kF8E8M0 ? " (byte 255)" : " or infinity", bad)};
    }
  } else if (EndsWith(name, "tid2eid")) {
    const auto count = static_cast<std::int64_t>(tensor.bytes.size() / sizeof(std::int64_t));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto id = LoadUnaligned<std::int64_t>(tensor.bytes.data() + i * 8);
      if (id < 0 || id >= config.n_routed_experts) {
        return Error{ErrorCode::kInvalidData,
                     fmt::format("{}: expected expert ids 0 to {}, found {} at element {}", name,
                                 config.n_routed_experts - 1, id, i)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Status CheckWeightValues(const Checkpoint& checkpoint, const ModelConfig& config, ThreadTeam& team,
                         const std::function<void(double)>& progress) {
  std::vector<const Checkpoint::Tensor*> tensors;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (EndsWith(tensor.name, ".scale") || EndsWith(tensor.name, "tid2eid")) {
      tensors.push_back(&tensor);
    }
  }
  // In rounds, so that progress is reported from this thread and the first problems end the check.
  constexpr std::size_t kRound = 256;
  constexpr std::size_t kShown = 20;
  std::mutex mutex;
  std::vector<std::string> problems;
  for (std::size_t first = 0; first < tensors.size() && problems.size() < kShown; first += kRound) {
    const std::size_t count = std::min(kRound, tensors.size() - first);
    team.For(static_cast<std::int64_t>(count), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Checkpoint::Tensor& tensor = *tensors[first + static_cast<std::size_t>(i)];
        if (std::optional<Error> error = CheckTensor(tensor.name, tensor.view, config)) {
          const std::lock_guard lock(mutex);
          problems.push_back(std::move(error->message));
        }
      }
    });
    if (progress) {
      progress(static_cast<double>(first + count) / static_cast<double>(tensors.size()));
    }
  }
  if (problems.empty()) {
    return {};
  }
  std::sort(problems.begin(), problems.end());
  problems.resize(std::min(problems.size(), kShown));
  return MakeError(ErrorCode::kInvalidData, "{}: invalid values:\n  {}", checkpoint.path().string(),
                   fmt::join(problems, "\n  "));
}

}  // namespace fathom
