// Checks the shapes of operands, for all backends.
#pragma once

#include "kernels/operations.h"

namespace fathom {

// Aborts with the name of the operation if its contract (operations.h) is broken.
void CheckShapes(const Operation& operation);
// Aborts if k cannot be divided as the format and k_parts need.
void CheckWeight(const Weight& w);

}  // namespace fathom
