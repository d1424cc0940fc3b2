// EngineCore: the engine without its thread. Takes requests and runs one step at a time.
//
// A model with several stages (limits().most_in_flight) has that many steps in flight, each with
// other sequences. When all are in flight, the call of Step that begins a step also ends the
// oldest. Every rank runs the steps in order, so the cache knows all it needs about a step when the
// step has begun; only the tokens come later. Drafts need the streams of the last step, so a step
// that drafts runs alone (StepRunner::RunsAlone).
//
// Tests drive it step by step to repeat a schedule; Engine (engine.h) gives it a thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/cache_manager.h"
#include "engine/disk_restore.h"
#include "engine/engine.h"
#include "engine/engine_trace.h"
#include "engine/mask_pool.h"
#include "engine/metrics.h"
#include "engine/pass_in_pieces.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "engine/stream_state.h"
#include "kv_cache/block_store.h"
#include "model/language_model.h"

namespace fathom::engine {

enum class StepOutcome {
  kRan,      // a step began or ended, or a late mask was awaited for a moment
  kStalled,  // all requests wait for their readers or the disk
  kIdle,     // there are no requests
};

// One thread at a time, except Prepare.
class EngineCore {
 public:
  // `model` and `metrics` must outlive the core.
  static Result<std::unique_ptr<EngineCore>> Create(LanguageModel& model,
                                                    const EngineOptions& options,
                                                    EngineMetrics& metrics);
  ~EngineCore();

  // Checks a request and creates its state and stream. Errors as Engine::Submit. Any thread.
  Result<std::unique_ptr<RequestState>> Prepare(Request request,
                                                std::shared_ptr<Waker> waker) const;
  void Add(std::unique_ptr<RequestState> request);
  // Between two steps; see Engine::ClearPrefixCache.
  void ClearPrefixCache() { caches_->ClearPrefixes(); }
  StepOutcome Step();
  // Returns the reason why the model can compute nothing any more, once a step has failed for such
  // a reason (LanguageModel). Then call FailAll.
  const std::optional<Error>& failure() const { return failure_; }
  // Ends all requests: with kCancelled, or with an error if no further step can run.
  void CancelAll() { EndAll(FinishReason::kCancelled); }
  void FailAll(const Error& error) { EndAll(FinishReason::kError, error); }
  // Waits a moment at most for a load from the disk to end. Returns false if no load is running.
  bool WaitForDisk();
  // Waits until all reads and writes of the disk have ended.
  void SettleDisk();
  // Writes cached blocks to the disk, if there is one, and the rest of the trace.
  void Close();

  std::int64_t n_requests() const { return static_cast<std::int64_t>(requests_.size()); }
  const CacheManager& caches() const { return *caches_; }
  const ModelLimits& limits() const { return limits_; }

 private:
  EngineCore(LanguageModel& model, const EngineOptions& options, EngineMetrics& metrics);
  Status OpenFiles(LanguageModel& model, const BlockKey& root);
  void AddFreeStep(int slot);
  void HandleCancels();
  void ForkChoices(Sequence& first, const StepRunner::SampleOther& sample);
  Sequence& NewSequence(RequestState& request, std::uint32_t choice);
  std::unique_ptr<RunningStep> FreeStep();
  enum class MaskWait { kNone, kReady, kLate };
  MaskWait WaitForMask();
  void Begin(std::unique_ptr<RunningStep> step);
  void BeginPass(std::unique_ptr<RunningStep> step);
  bool IsInPass() const { return pass_ && pass_->IsRunning(); }
  void GoOnWithPass();
  bool RunInPause();
  void ContinuePass();
  void EndOldest();
  bool MustEndNow() const;
  Status EndStep(RunningStep& step);
  void FailPlan(const StepPlan& plan, const Error& error);
  void FailAlone(const StepPlan& plan);
  void FailRequest(const Sequence& sequence, const Error& error);
  void CommitFinished();
  void CommitPlan(const StepPlan& plan);
  void Finish(Sequence& sequence);
  void FinishAll();
  void EndRequest(RequestState& request, FinishReason reason,
                  const std::optional<Error>& error = std::nullopt);
  void EndAll(FinishReason reason, const std::optional<Error>& error = std::nullopt);
  void EndStream(RequestState& request);
  void PublishAll();
  StreamingCounts ReportStreaming();  // without slots if experts are not streamed
  void Count(const RunningStep& step, Clock::time_point end);

  const EngineOptions options_;
  StreamNotifier notifier_;
  EngineMetrics& metrics_;
  const ModelLimits limits_;
  SequenceCache& cache_;
  std::unique_ptr<EngineTrace> trace_;
  std::unique_ptr<BlockStore> disk_;
  std::unique_ptr<DiskRestore> restore_;
  std::unique_ptr<CacheManager> caches_;
  std::unique_ptr<Scheduler> scheduler_;
  const std::unique_ptr<MaskPool> masks_;
  StepRunner runner_;
  std::optional<PassInPieces> pass_;  // null: the model does not pause
  std::list<std::unique_ptr<RequestState>> requests_;
  std::list<std::unique_ptr<Sequence>> sequences_;
  std::int64_t next_id_ = 0;
  std::vector<std::unique_ptr<RunningStep>> free_steps_;
  std::vector<std::unique_ptr<RunningStep>> running_steps_;  // oldest first
  std::vector<Sequence*> finished_;
  std::vector<std::shared_ptr<StreamState>> published_;
  std::vector<RequestState*> touched_;  // requests whose streams have new events in this step
  std::optional<Error> failure_;
};

}  // namespace fathom::engine
