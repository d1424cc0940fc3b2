// ExecutionPaths: the ways to compute an operation, if a device has several.
//
// products   exact: every sum in the order of docs/numerics.md, the bits of all devices
//            fast: FP8 and FP4 weights widened to f16, on tensor cores; sums in another order
//            fp8: FP8 operands on tensor cores; less exact than fast on some devices
// attention  portable: the order of docs/numerics.md; flash: tensor cores
// moe        grouped: each expert's rows together; fused: with the exchange between ranks, on the
//            device
// The choice is made at load, never by the size of a batch, because answers depend on it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/backend.h"

namespace fathom::kernels {

// The names of the ways, for options: "auto" is the best way that the device has.
inline constexpr std::string_view kProductPaths[] = {"auto", "exact", "fast", "fp8"};
inline constexpr std::string_view kAttentionPaths[] = {"auto", "portable", "flash"};
inline constexpr std::string_view kMoePaths[] = {"auto", "grouped", "fused"};

struct ExecutionPaths {
  std::string products = "auto";
  std::string attention = "auto";
  std::string moe = "auto";
};

// Replaces "auto" by the way it means on this backend. Error: kUnsupported for a way that the
// backend does not have; the message names the option, the backend and its ways.
Result<ExecutionPaths> ChoosePaths(const ExecutionPaths& wanted, const Backend& backend);

}  // namespace fathom::kernels
