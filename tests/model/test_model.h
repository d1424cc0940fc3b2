// A loaded model and the CPU backend it runs on, for tests.
#pragma once

#include <filesystem>
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
};

class TestModel {
 public:
  TestModel(const std::filesystem::path& directory, const ModelOptions& options,
            const TestBackend& wanted = {}) {
    Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(wanted.isa, wanted.n_threads);
    Check(backend.has_value(), backend ? "" : backend.error().message);
    backend_ = WithMemory(std::move(*backend), wanted.memory);
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
