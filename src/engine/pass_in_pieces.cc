#include "engine/pass_in_pieces.h"

#include <algorithm>
#include <utility>

namespace fathom::engine {
namespace {

// Returns true if all sequences have finished, or will finish as soon as the engine sees that they
// have no reader.
bool IsUnwanted(const StepPlan& plan) {
  return std::ranges::all_of(plan.segments, [](const PlannedSegment& segment) {
    const Sequence& sequence = *segment.sequence;
    return sequence.IsFinished() || sequence.request.stream->cancelled();
  });
}

}  // namespace

Status PassInPieces::Begin(std::unique_ptr<RunningStep>& step) {
  const Clock::time_point begin = Clock::now();
  const StepPlan& plan = step->plan;
  const Status begun = runner_.BeginPass(*step, [&plan] { return IsUnwanted(plan); });
  if (!begun) return begun;
  scheduler_.BeginPass(step->plan);
  CountBegun(step->plan);
  step_ = std::move(step);
  layer_seconds_ = step_->seconds = SecondsSince(begin);
  pause_seconds_ = 0;
  has_run_layer_ = false;
  return {};
}

Result<PassProgress> PassInPieces::Continue() {
  const Clock::time_point begin = Clock::now();
  Result<PassProgress> progress = runner_.ContinuePass(*step_);
  const double seconds = SecondsSince(begin);
  step_->seconds += seconds;
  layer_seconds_ += seconds;
  has_run_layer_ = true;
  if (!progress && IsUnwanted(step_->plan)) metrics_.Add(&MetricsSnapshot::stopped_passes);
  if (progress) metrics_.SetPass(*progress, step_->plan.n_prompt_tokens);
  return progress;
}

bool PassInPieces::IsPauseDue() const {
  return pauses_each_layer_ ? has_run_layer_ : pause_seconds_ < layer_seconds_;
}

void PassInPieces::CountPause(double seconds) {
  pause_seconds_ += seconds;
  has_run_layer_ = false;
  metrics_.Add(&MetricsSnapshot::pauses);
}

bool PassInPieces::IsAbandoned() const {
  return std::ranges::all_of(step_->plan.segments, [](const PlannedSegment& segment) {
    return segment.sequence->IsFinished();
  });
}

std::unique_ptr<RunningStep> PassInPieces::Stop() {
  step_->pass.reset();
  metrics_.Add(&MetricsSnapshot::stopped_passes);
  std::unique_ptr<RunningStep> step = Take();
  CountEnded(step->plan);
  return step;
}

std::unique_ptr<RunningStep> PassInPieces::Take() {
  scheduler_.EndPass(step_->plan);
  metrics_.SetPass({}, 0);
  return std::move(step_);
}

}  // namespace fathom::engine
