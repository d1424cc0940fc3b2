// PassInPieces: a step of prompts that runs a layer at a time, for a model that can pause between
// layers (ModelLimits::pause_tokens). Where experts are read from disk, such a step takes seconds
// to minutes: sequences that decode get half of that time, and the step stops when all its requests
// have ended.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "engine/metrics.h"
#include "engine/scheduler.h"
#include "engine/step_runner.h"
#include "model/language_model.h"

namespace fathom::engine {

// Take or Stop ends the work that the scheduler and the runner have begun for a pass. Engine thread
// only; runner, scheduler and metrics must outlive this object.
class PassInPieces {
 public:
  // pauses_each_layer: a pause after every layer, however long it was, so that tests repeat.
  PassInPieces(StepRunner& runner, Scheduler& scheduler, EngineMetrics& metrics,
               bool pauses_each_layer)
      : runner_(runner),
        scheduler_(scheduler),
        metrics_(metrics),
        pauses_each_layer_(pauses_each_layer) {}

  bool IsRunning() const { return step_ != nullptr; }
  std::int64_t n_prompt_tokens() const { return step_->plan.n_prompt_tokens; }
  // Takes the step and begins it. On an error, `step` keeps its value. Errors: see
  // StepRunner::BeginPass.
  Status Begin(std::unique_ptr<RunningStep>& step);
  // Runs a layer, or less if the step's sequences have no readers any more. After an error, and
  // after the last layer, call Take. Errors: see StepRunner::ContinuePass.
  Result<PassProgress> Continue();
  // Returns true if other steps are next: their time so far is less than the time of the layers.
  bool IsPauseDue() const;
  void CountPause(double seconds);
  // Returns true if all sequences of the step have finished.
  bool IsAbandoned() const;
  // Stops and returns the step.
  std::unique_ptr<RunningStep> Stop();
  // Returns the step after it has run or failed.
  std::unique_ptr<RunningStep> Take();

 private:
  StepRunner& runner_;
  Scheduler& scheduler_;
  EngineMetrics& metrics_;
  const bool pauses_each_layer_;
  std::unique_ptr<RunningStep> step_;  // null: no step is under way
  // --- The step under way ---
  double layer_seconds_ = 0;
  double pause_seconds_ = 0;
  bool has_run_layer_ = false;  // since the last pause
};

}  // namespace fathom::engine
