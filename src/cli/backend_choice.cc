#include "cli/backend_choice.h"

#include "kernels/reference/reference_backend.h"

namespace fathom::cli {

Result<std::unique_ptr<Backend>> ChooseBackend(const RunOptions& run, Log& log) {
  static_cast<void>(run);
  static_cast<void>(log);
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>());
}

}  // namespace fathom::cli
