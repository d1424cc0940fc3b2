// A model with weights for random schedules, on a backend of the test's choice.
#pragma once

#include <filesystem>
#include <memory>

#include "engine/model_adapter.h"
#include "tests/engine/schedule_checks.h"
#include "tests/model/test_model.h"

namespace fathom::testing {

// A model with its backend, as the engine needs them.
class OwnedModel final : private TestModel, public ModelAdapter {
 public:
  OwnedModel(const std::filesystem::path& directory, const ModelOptions& options,
             const TestBackend& backend = {})
      : TestModel(directory, options, backend), ModelAdapter(model()) {}
};

inline std::unique_ptr<LanguageModel> LoadOn(const TestBackend& backend,
                                             const std::filesystem::path& directory,
                                             const ScheduleSetup& setup) {
  ModelOptions options = {.max_sequences = setup.max_sequences,
                          .max_context = kContext,
                          .max_batch_tokens = setup.max_batch_tokens,
                          .max_logit_rows = setup.max_logit_rows,
                          .pause_tokens = setup.pause_tokens,
                          .with_draft = setup.engine.draft.enabled,
                          .parts = backend.parts};
  if (setup.small_memory) {
    options.kv_memory_bytes = SmallMemory(OwnedModel(directory, options).Cache());
  }
  return std::make_unique<OwnedModel>(directory, options, backend);
}

}  // namespace fathom::testing
