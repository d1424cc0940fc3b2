#include "checkpoint/weight_binder.h"

#include <algorithm>
#include <string>

#include "checkpoint/problems.h"

namespace fathom {
namespace {

std::string Names(std::span<const DType> dtypes) {
  std::string names;
  for (const DType dtype : dtypes) {
    names += names.empty() ? "" : " or ";
    names += Name(dtype);
  }
  return names;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

WeightBinder::WeightBinder(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint), asked_(checkpoint.tensors().size()) {}

const TensorView* WeightBinder::Bind(std::string_view name, std::span<const DType> allowed,
                                     std::span<const std::int64_t> shape) {
  const std::optional<std::size_t> index = checkpoint_.IndexOf(name);
  if (!index) {
    AddProblem(problems_, "{}: missing, expected {} {}", name, Names(allowed),
               ShapeToString(shape));
    return nullptr;
  }
  asked_[*index] = true;
  const TensorView& view = checkpoint_.tensors()[*index].view;
  const bool right_type = std::find(allowed.begin(), allowed.end(), view.dtype) != allowed.end();
  const bool right_shape =
      std::equal(view.shape.begin(), view.shape.end(), shape.begin(), shape.end());
  if (!right_type || !right_shape) {
    AddProblem(problems_, "{}: expected {} {}, found {} {}", name, Names(allowed),
               ShapeToString(shape), Name(view.dtype), ShapeToString(view.shape));
    return nullptr;
  }
  return &view;
}

Status WeightBinder::Finish() const {
  if (problems_.empty()) return {};
  return Unexpected(
      SummarizeProblems(fmt::format("the tensors of {}", checkpoint_.path().string()), problems_));
}

std::vector<std::string_view> WeightBinder::Unused() const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const std::string_view name = checkpoint_.tensors()[i].name;
    if (!asked_[i] && !IsUnusedDraftCopy(name)) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsUnusedDraftCopy(std::string_view name) {
  constexpr std::string_view kPrefix = "mtp.";
  constexpr std::string_view kHead = "head.weight";
  if (name.substr(0, kPrefix.size()) != kPrefix) return false;
  for (const std::string_view used : {"markov_head", "confidence_head", "hc_head"}) {
    if (Contains(name, used)) return false;
  }
  return Contains(name, "emb") || name.ends_with(kHead);
}

}  // namespace fathom
