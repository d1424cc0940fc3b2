// OperationWork: the name and the cost of an operation, for profiles, from its operands alone.
#pragma once

#include <string>

#include "kernels/operations.h"
#include "kernels/profile.h"

namespace fathom {

struct OperationWork {
  // "RmsNorm"; products with format and shape of the weight in the checkpoint's order: "Linear FP8
  // [n, k]".
  std::string name;
  // Weights count once per call, an expert's if a row chooses it, and cached rows once per query.
  WorkCost cost{};
};

// Reads the ids of Routing, and no other memory of the backend.
OperationWork Describe(const Operation& operation);

}  // namespace fathom
