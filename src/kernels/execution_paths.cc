#include "kernels/execution_paths.h"

namespace fathom::kernels {
namespace {

// `only`: the path that every backend has; kernels for tensor cores do not exist yet.
Result<std::string> ChoosePath(std::string_view option, const std::string& wanted,
                               std::string_view only, const Backend& backend) {
  if (wanted == "auto" || wanted == only) return std::string(only);
  return MakeError(ErrorCode::kUnsupported, "{}: expected {} or auto, which {} has, found {}",
                   option, only, backend.Name(), wanted);
}

}  // namespace

Result<ExecutionPaths> ChoosePaths(const ExecutionPaths& wanted, const Backend& backend) {
  Result<std::string> products = ChoosePath("--products", wanted.products, "exact", backend);
  if (!products) return Unexpected(products.error());
  Result<std::string> attention = ChoosePath("--attention", wanted.attention, "portable", backend);
  if (!attention) return Unexpected(attention.error());
  Result<std::string> moe = ChoosePath("--moe", wanted.moe, "grouped", backend);
  if (!moe) return Unexpected(moe.error());
  return ExecutionPaths{*std::move(products), *std::move(attention), *std::move(moe)};
}

}  // namespace fathom::kernels
