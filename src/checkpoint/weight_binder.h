// WeightBinder: binds tensors of a checkpoint by name, and reports all that were missing at the
// end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// Does not own the checkpoint, which must outlive the binder and the bound views. One thread.
//
//   WeightBinder binder(checkpoint);
//   norm = binder.Bind("norm.weight", {DType::kBF16}, {hidden_size});
//   ...
//   if (Status status = binder.Finish(); !status) return Unexpected(status.error());
class WeightBinder {
 public:
  explicit WeightBinder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Returns the tensor if it has one of the types `allowed` and exactly this shape. Otherwise
  // returns nullptr and records the problem: keep binding, so that the user sees all problems.
  const TensorView* Bind(std::string_view name, std::span<const DType> allowed,
                         std::span<const std::int64_t> shape);
  const TensorView* Bind(std::string_view name, std::initializer_list<DType> allowed,
                         std::initializer_list<std::int64_t> shape) {
    return Bind(name, std::span(allowed.begin(), allowed.size()),
                std::span(shape.begin(), shape.size()));
  }

  // Returns the problems: one alone where the checkpoint has another layout (foreign_layout.h),
  // which explains all of them.
  std::vector<Error> Problems() const;

  // Returns one error for all problems: the first 20 shown, the others counted.
  Status Finish() const;

 private:
  const Checkpoint& checkpoint_;
  std::vector<Error> problems_;
};

}  // namespace fathom
