// PassInPieces: a step of prompts that runs a layer at a time, for a model that can pause between
// layers (ModelLimits::pause_tokens). Where experts are read from disk, such a step takes seconds
// to minutes: sequences that decode get half of that time, and the step stops when all its requests
// have ended.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "engine/language_model.h"
#include "engine/metrics.h"
#include "engine/scheduler.h"
#include "engine/step_runner.h"

namespace fathom {

// Take or Stop end what the scheduler and the runner have begun for a pass. Engine thread only;
// runner, scheduler and metrics outlive it.
class PassInPieces {
 public:
  // pauses_each_layer: a pause after every layer, however long it was, so that tests repeat.
  PassInPieces(StepRunner& runner, Scheduler& scheduler, EngineMetrics& metrics,
               bool pauses_each_layer)
      : runner_(runner),
        scheduler_(scheduler),
        metrics_(metrics),
        pauses_each_layer_(pauses_each_layer) {}
  // Leaves the model without a pass, for another engine.
  ~PassInPieces();

  bool IsRunning() const { return step_ != nullptr; }
  std::int64_t n_prompt_tokens() const { return step_->plan.n_prompt_tokens; }
  // Takes the step and begins it. Errors, with `step` left: those of StepRunner::BeginPass.
  Status Begin(std::unique_ptr<RunningStep>& step);
  // Runs a layer, or less if nobody reads the step's sequences any more. After an error, and after
  // the last layer, Take is next. Errors: those of StepRunner::ContinuePass.
  Result<PassProgress> Continue();
  // True if other steps are next: their time so far is less than that of the layers.
  bool IsPauseDue() const;
  void CountPause(double seconds);
  // True if all sequences of the step have finished.
  bool IsAbandoned() const;
  // Stops the step.
  std::unique_ptr<RunningStep> Stop();
  // Returns the step, which has run or failed.
  std::unique_ptr<RunningStep> Take();

 private:
  StepRunner& runner_;
  Scheduler& scheduler_;
  EngineMetrics& metrics_;
  const bool pauses_each_layer_;
  std::unique_ptr<RunningStep> step_;  // null: none is under way
  // --- The step under way ---
  double layer_seconds_ = 0;
  double pause_seconds_ = 0;
  bool has_run_layer_ = false;  // since the last pause
};

}  // namespace fathom
