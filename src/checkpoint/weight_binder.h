// WeightBinder: binds tensors of a checkpoint by name, and reports all missing ones at the end.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/safetensors.h"

namespace fathom::checkpoint {

// Element types that are read equally, and the shape of a tensor with these types.
struct TensorForm {
  std::vector<DType> dtypes;
  std::vector<std::int64_t> shape;
};

// Does not own the checkpoint, which must outlive the binder and the bound views. One thread.
//
//   WeightBinder binder(checkpoint);
//   norm = binder.Bind("norm.weight", {DType::kBF16}, {hidden_size});
//   ...
//   if (Status status = binder.Finish(); !status) return Unexpected(status.error());
class WeightBinder {
 public:
  explicit WeightBinder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Returns the tensor if it has one of the forms, with exactly its shape. Otherwise returns
  // nullptr and records the problem: keep binding, so that the user sees all problems.
  const TensorView* Bind(std::string_view name, std::span<const TensorForm> forms);
  const TensorView* Bind(std::string_view name, std::vector<DType> dtypes,
                         std::vector<std::int64_t> shape) {
    const TensorForm form = {std::move(dtypes), std::move(shape)};
    return Bind(name, std::span(&form, 1));
  }

  // Returns the problems; only one if the checkpoint has another layout (foreign_layout.h), which
  // explains all of them.
  std::vector<Error> Problems() const;

  // Returns one error for all problems: the first 20 shown, the others counted.
  Status Finish() const;

 private:
  const Checkpoint& checkpoint_;
  std::vector<Error> problems_;
  std::int64_t n_unread_ = 0;  // tensors whose bytes could not be read: one problem
};

}  // namespace fathom::checkpoint
