#include "checkpoint/weight_binder.h"

#include <algorithm>
#include <string>

#include "checkpoint/foreign_layout.h"
#include "checkpoint/problems.h"

namespace fathom::checkpoint {
namespace {

// Returns "I8 or U8 [4, 8] or F4 [4, 16]".
std::string DescribeForms(std::span<const TensorForm> forms) {
  std::string text;
  for (const TensorForm& form : forms) {
    for (const DType dtype : form.dtypes) {
      text += text.empty() ? "" : " or ";
      text += Name(dtype);
    }
    text += " " + ShapeToString(form.shape);
  }
  return text;
}

bool Has(const TensorForm& form, const TensorView& view) {
  return std::ranges::find(form.dtypes, view.dtype) != form.dtypes.end() &&
         std::ranges::equal(form.shape, view.shape);
}

}  // namespace

const TensorView* WeightBinder::Bind(std::string_view name, std::span<const TensorForm> forms) {
  const TensorView* const view = checkpoint_.Find(name);
  if (view == nullptr && checkpoint_.IsUnread(name)) {
    ++n_unread_;
    return nullptr;
  }
  if (view == nullptr) {
    AddProblem(problems_, "{}: missing, expected {}", name, DescribeForms(forms));
    return nullptr;
  }
  if (!std::ranges::any_of(forms, [&](const TensorForm& form) { return Has(form, *view); })) {
    AddProblem(problems_, "{}: expected {}, found {} {}", name, DescribeForms(forms),
               Name(view->dtype), ShapeToString(view->shape));
    return nullptr;
  }
  return view;
}

std::vector<Error> WeightBinder::Problems() const {
  if (problems_.empty() && n_unread_ == 0) return {};
  if (auto layout = NameForeignLayout(checkpoint_)) {
    return {{ErrorCode::kUnsupported, *std::move(layout)}};
  }
  std::vector<Error> problems = problems_;
  if (n_unread_ > 0) {
    AddProblem(problems, "{} tensors could not be read", n_unread_);
  }
  return problems;
}

Status WeightBinder::Finish() const {
  const std::vector<Error> problems = Problems();
  if (problems.empty()) return {};
  if (problems.front().code == ErrorCode::kUnsupported) return Unexpected(problems.front());
  return Unexpected(
      SummarizeProblems(fmt::format("the tensors of {}", checkpoint_.path().string()), problems));
}

}  // namespace fathom::checkpoint
