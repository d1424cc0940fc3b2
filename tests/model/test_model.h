// A loaded model and the backend it runs on, for tests.
#ifndef FATHOM_TESTS_MODEL_TEST_MODEL_H_
#define FATHOM_TESTS_MODEL_TEST_MODEL_H_

#include <filesystem>
#include <memory>

#include "base/check.h"
#include "kernels/reference/reference_backend.h"
#include "model/model.h"

namespace fathom::testing {

class TestModel {
 public:
  TestModel(const std::filesystem::path& directory, const ModelOptions& options) {
    backend_ = std::make_unique<ReferenceBackend>();
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

#endif  // FATHOM_TESTS_MODEL_TEST_MODEL_H_
