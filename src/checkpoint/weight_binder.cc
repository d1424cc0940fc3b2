#include "checkpoint/weight_binder.h"

#include <algorithm>
#include <string>

#include "checkpoint/foreign_layout.h"
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

}  // namespace

const TensorView* WeightBinder::Bind(std::string_view name, std::span<const DType> allowed,
                                     std::span<const std::int64_t> shape) {
  const TensorView* const view = checkpoint_.Find(name);
  if (view == nullptr) {
    AddProblem(problems_, "{}: missing, expected {} {}", name, Names(allowed),
               ShapeToString(shape));
    return nullptr;
  }
  const bool right_type = std::find(allowed.begin(), allowed.end(), view->dtype) != allowed.end();
  const bool right_shape =
      std::equal(view->shape.begin(), view->shape.end(), shape.begin(), shape.end());
  if (!right_type || !right_shape) {
    AddProblem(problems_, "{}: expected {} {}, found {} {}", name, Names(allowed),
               ShapeToString(shape), Name(view->dtype), ShapeToString(view->shape));
    return nullptr;
  }
  return view;
}

std::vector<Error> WeightBinder::Problems() const {
  if (problems_.empty()) return {};
  if (auto layout = NameForeignLayout(checkpoint_)) {
    return {{ErrorCode::kUnsupported, *std::move(layout)}};
  }
  return problems_;
}

Status WeightBinder::Finish() const {
  const std::vector<Error> problems = Problems();
  if (problems.empty()) return {};
  if (problems.front().code == ErrorCode::kUnsupported) return Unexpected(problems.front());
  return Unexpected(
      SummarizeProblems(fmt::format("the tensors of {}", checkpoint_.path().string()), problems));
}

}  // namespace fathom
