// A model with weights for random schedules, on a backend of the test's choice.
#pragma once

#include <filesystem>
#include <memory>

#include "tests/engine/schedule_checks.h"
#include "tests/model/test_model.h"

namespace fathom::testing {

// Returns a model that owns its backend, too.
inline std::shared_ptr<LanguageModel> LoadOn(const TestBackend& backend,
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
    options.kv_memory_bytes = SmallMemory(TestModel(directory, options).model().cache());
  }
  const auto loaded = std::make_shared<TestModel>(directory, options, backend);
  return {loaded, &loaded->model()};
}

}  // namespace fathom::testing
