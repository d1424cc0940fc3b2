// A loaded model and the backend it runs on, for tests.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/check.h"
#include "kernels/registry.h"
#include "model/model.h"
#include "tests/testing/remote_backend.h"

namespace fathom::testing {

struct TestBackend {
  std::optional<Isa> isa;  // default: the widest of this machine
  int n_threads = 2;
  TestMemory memory = TestMemory::kHost;
  std::function<std::unique_ptr<Backend>()> other{};  // makes what computes instead of the CPU
  MakeModelParts parts{};                             // ModelOptions::parts, for whole engines
};

inline std::unique_ptr<Backend> MakeTestBackend(const TestBackend& wanted) {
  if (wanted.other) return wanted.other();
  Result<std::unique_ptr<Backend>> cpu = MakeCpuBackend(wanted.isa, wanted.n_threads);
  Check(cpu.has_value(), cpu ? "" : cpu.error().message);
  return WithMemory(*std::move(cpu), wanted.memory);
}

class TestModel {
 public:
  TestModel(const std::filesystem::path& directory, const ModelOptions& options,
            const TestBackend& wanted = {})
      : backend_(MakeTestBackend(wanted)) {
    Result<std::unique_ptr<Model>> model = Model::Load(directory, *backend_, options);
    Check(model.has_value(), model ? "" : model.error().message);
    model_ = std::move(*model);
  }
  Model& model() { return *model_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
};

}  // namespace fathom::testing
