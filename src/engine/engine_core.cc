#include "engine/engine_core.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"

namespace fathom::engine {
namespace {

double Seconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

Result<std::uint64_t> ChooseSeed(const std::optional<std::uint64_t>& seed) {
  if (seed) return *seed;
  std::uint64_t drawn = 0;
  if (getentropy(&drawn, sizeof(drawn)) != 0) {
    return MakeError(ErrorCode::kIo,
                     "seed: none given, and the operating system has no random numbers");
  }
  return drawn;
}

// Returns the most events that a sequence adds to its stream in a step.
std::int64_t EventsPerStep(const EngineOptions& options, const ModelLimits& limits) {
  return 1 + MostDrafted(options.draft, limits);
}

// Limits the tokens of a step to as many as the model can compute.
EngineOptions WithStepTokens(EngineOptions options, const ModelLimits& limits) {
  std::int64_t& most = options.max_step_tokens;
  most = most > 0 ? std::min(most, limits.max_batch_tokens) : limits.max_batch_tokens;
  return options;
}

void EraseFinished(StepPlan& plan) {
  std::erase_if(plan.segments,
                [](const PlannedSegment& segment) { return segment.sequence->IsFinished(); });
}

// Hashes the model's fingerprint and everything else that decides the bytes of a block.
BlockKey RootKey(const EngineOptions& options, const CacheShape& shape) {
  constexpr int kNumericsVersion = 2;  // incremented when docs/numerics.md changes a sum
  std::string identity = fmt::format(
      "fathom {} {} {} {} {} {} {}", options.fingerprint, kNumericsVersion, shape.keys.head_dim,
      shape.keys.rope_dims, shape.sliding_window, shape.n_draft_layers, shape.stream_bytes);
  for (const int ratio : shape.ratios) {
    identity += fmt::format(" {}", ratio);
  }
  return HashBytes(std::as_bytes(std::span(identity)));
}

}  // namespace

EngineCore::EngineCore(LanguageModel& model, const EngineOptions& options, EngineMetrics& metrics)
    : options_(WithStepTokens(options, model.Limits())),
      metrics_(metrics),
      limits_(model.Limits()),
      cache_(model.cache()),
      masks_(std::make_unique<MaskPool>(
          &metrics, options.model_fills_processors ? QuickMasks::kAskers : QuickMasks::kThreads)),
      runner_(model, options_, metrics) {}

EngineCore::~EngineCore() = default;

Result<std::unique_ptr<EngineCore>> EngineCore::Create(LanguageModel& model,
                                                       const EngineOptions& options,
                                                       EngineMetrics& metrics) {
  const ModelLimits limits = model.Limits();
  if (Status valid = CheckDrafts(options.draft, limits); !valid) return Unexpected(valid.error());
  auto core = std::unique_ptr<EngineCore>(new EngineCore(model, options, metrics));
  const BlockKey root = RootKey(options, core->cache_.shape());
  if (Status opened = core->OpenFiles(model, root); !opened) return Unexpected(opened.error());
  EngineCore& c = *core;
  c.caches_ = std::make_unique<CacheManager>(c.cache_, root, options.prefix_cache, c.restore_.get(),
                                             metrics);
  const int n_in_flight = limits.most_in_flight;
  c.scheduler_ = std::make_unique<Scheduler>(
      *c.caches_, limits,
      SchedulerOptions{.max_step_tokens = c.options_.max_step_tokens,
                       .target_step_seconds = options.target_step_seconds,
                       .max_events_per_step = EventsPerStep(options, limits),
                       .n_in_flight = n_in_flight},
      metrics);
  c.running_steps_.reserve(static_cast<std::size_t>(n_in_flight));
  for (int slot = n_in_flight; slot > 0; --slot) {
    c.AddFreeStep(slot - 1);
  }
  if (limits.pause_tokens > 0) {
    c.pass_.emplace(c.runner_, *c.scheduler_, metrics, options.pauses_each_layer);
    c.AddFreeStep(0);  // awaits its logits when the other step does not
  }
  c.runner_.set_on_prompt_read([&c](Sequence& first, const StepRunner::SampleOther& sample) {
    c.ForkChoices(first, sample);
  });
  c.scheduler_->set_on_preempt([&c](Sequence& sequence) {
    if (c.trace_ != nullptr) c.trace_->AddPreemption(sequence.request);
  });
  c.caches_->Report();
  return core;
}

void EngineCore::AddFreeStep(int slot) {
  free_steps_.push_back(std::make_unique<RunningStep>());
  free_steps_.back()->slot = slot;
  free_steps_.back()->batch.Reserve(limits_.max_batch_tokens, limits_.max_sequences);
}

Status EngineCore::OpenFiles(LanguageModel& model, const BlockKey& root) {
  if (!options_.trace.empty()) {
    Result<std::unique_ptr<EngineTrace>> trace = EngineTrace::Open(options_.trace);
    if (!trace) return Unexpected(trace.error());
    trace_ = *std::move(trace);
  }
  if (options_.disk.directory.empty() || !options_.prefix_cache) return {};
  const auto warn = options_.warn ? options_.warn : [](const std::string&) {};
  Result<std::unique_ptr<BlockStore>> disk = model.OpenDisk(options_.disk, root, warn);
  if (!disk) return Unexpected(disk.error());
  disk_ = *std::move(disk);
  restore_ = std::make_unique<DiskRestore>(*disk_, cache_);
  return {};
}

Result<std::unique_ptr<RequestState>> EngineCore::Prepare(Request request,
                                                          std::shared_ptr<Waker> waker) const {
  const EngineLimits limits = {.vocab_size = limits_.vocab_size,
                               .max_context = limits_.max_context,
                               .most_positions = caches_->MostPositions(),
                               .cache_bytes = cache_.bytes(),
                               .knows_text = static_cast<bool>(options_.token_bytes)};
  if (Status valid = CheckRequest(request, limits); !valid) return Unexpected(valid.error());
  const Result<std::uint64_t> seed = ChooseSeed(request.sampling.seed);
  if (!seed) return Unexpected(seed.error());
  if (request.sampling.constraint != nullptr) {
    if (Status started = masks_->Start(); !started) return Unexpected(started.error());
  }
  const std::int64_t capacity =
      options_.stream_events + request.n_choices * (EventsPerStep(options_, limits_) + 1);
  auto state = std::make_unique<RequestState>();
  state->request = std::move(request);
  state->seed = *seed;
  const auto n_prompt = static_cast<std::int64_t>(state->request.prompt.size());
  state->max_tokens = std::min(
      {state->request.sampling.max_tokens.value_or(std::numeric_limits<std::int64_t>::max()),
       limits_.max_context - n_prompt, caches_->MostPositions() - n_prompt});
  state->stream = std::make_shared<StreamState>(capacity, std::move(waker));
  state->n_unfinished = state->request.n_choices;
  state->stats.seed = *seed;
  state->stats.prompt_tokens = n_prompt;
  if (state->request.prompt_logprobs) {
    state->prompt_logprobs = std::make_shared<std::vector<TokenLogprobs>>();
    state->stats.prompt_logprobs = state->prompt_logprobs;
  }
  state->submitted = Clock::now();
  return state;
}

Sequence& EngineCore::NewSequence(RequestState& request, std::uint32_t choice) {
  sequences_.push_back(std::make_unique<Sequence>(request, choice));
  return *sequences_.back();
}

void EngineCore::Add(std::unique_ptr<RequestState> request) {
  request->id = next_id_++;
  Sequence& first = NewSequence(*request, 0);
  if (const auto& constraint = request->request.sampling.constraint; constraint != nullptr) {
    first.constraint =
        std::make_unique<ConstraintPath>(constraint, first.request.request.owner, *masks_);
  }
  requests_.push_back(std::move(request));
  scheduler_->Add(first);
}

// Starts the other choices when the first has read the prompt. A choice without a slot waits for
// one, and then finds the prompt in the prefix cache or reads it again.
void EngineCore::ForkChoices(Sequence& first, const StepRunner::SampleOther& sample) {
  RequestState& request = first.request;
  for (int j = 1; j < request.request.n_choices; ++j) {
    Sequence& other = NewSequence(request, static_cast<std::uint32_t>(j));
    if (first.constraint != nullptr) {
      other.constraint = std::make_unique<ConstraintPath>(*first.constraint);
    }
    if (request.max_tokens == 0) {
      EndWithoutToken(other, FinishReason::kLength);
      finished_.push_back(&other);
    } else if (scheduler_->Fork(first, other)) {
      sample(other);
    } else {
      scheduler_->Add(other);
    }
  }
}

void EngineCore::EndRequest(RequestState& request, FinishReason reason,
                            const std::optional<Error>& error) {
  int n_ended = 0;
  const auto end = [&](Sequence& sequence) {
    EndWithoutToken(sequence, reason, error);
    finished_.push_back(&sequence);
    ++n_ended;
  };
  for (const std::unique_ptr<Sequence>& sequence : sequences_) {
    if (&sequence->request == &request && !sequence->IsFinished()) {
      end(*sequence);
    }
  }
  // Ends the choices that would have started after the prompt, too.
  while (n_ended < request.n_unfinished) {
    const int choice = request.request.n_choices - request.n_unfinished + n_ended;
    end(NewSequence(request, static_cast<std::uint32_t>(choice)));
  }
}

void EngineCore::HandleCancels() {
  for (const std::unique_ptr<RequestState>& request : requests_) {
    if (request->stream->cancelled()) {
      EndRequest(*request, FinishReason::kCancelled);
    }
  }
  FinishAll();
}

void EngineCore::EndAll(FinishReason reason, const std::optional<Error>& error) {
  for (const std::unique_ptr<RequestState>& request : requests_) {
    EndRequest(*request, reason, error);
  }
  FinishAll();
  if (IsInPass()) free_steps_.push_back(pass_->Stop());
  PublishAll();
}

// Removes the sequence from the schedule; its request ends with the last of its choices.
void EngineCore::Finish(Sequence& sequence) {
  if (sequence.phase == SequencePhase::kLoading && restore_ != nullptr) {
    restore_->Forget(sequence);
  }
  scheduler_->Remove(sequence);
  touched_.push_back(&sequence.request);
  --sequence.request.n_unfinished;
}

void EngineCore::FinishAll() {
  for (Sequence* sequence : finished_) {
    Finish(*sequence);
  }
  finished_.clear();
}

// Ends the requests of a failed step, with all their choices; or all requests, if no further step
// can run.
void EngineCore::FailPlan(const StepPlan& plan, const Error& error) {
  ReportStreaming();
  FinishAll();
  if (error.code == ErrorCode::kInvalidData || error.code == ErrorCode::kUnavailable) {
    if (!failure_) failure_ = error;
    return;
  }
  for (const PlannedSegment& segment : plan.segments) FailRequest(*segment.sequence, error);
}

// Ends the requests whose sequences have failed while the step went on.
void EngineCore::FailAlone(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) {
    if (segment.failure) FailRequest(*segment.sequence, *segment.failure);
  }
}

// Ends the request of a sequence, unless the sequence has finished before.
void EngineCore::FailRequest(const Sequence& sequence, const Error& error) {
  if (sequence.IsFinished()) return;
  EndRequest(sequence.request, FinishReason::kError, error);
  FinishAll();
}

// Commits the finished sequences that have a slot, so that others can share their blocks.
void EngineCore::CommitFinished() {
  for (Sequence* sequence : finished_) {
    if (sequence->slot >= 0) {
      caches_->Commit(*sequence);
    }
  }
}

void EngineCore::CommitPlan(const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) {
    if (segment.sequence->slot >= 0) {  // a sequence without a slot was preempted meanwhile
      caches_->Commit(*segment.sequence);
    }
  }
}

// Closes the stream of a request whose choices have all finished.
void EngineCore::EndStream(RequestState& request) {
  const Clock::time_point now = Clock::now();
  RequestStats& stats = request.stats;
  const Clock::time_point started = request.started.value_or(now);
  const Clock::time_point first = request.first_token.value_or(now);
  stats.queue_seconds = Seconds(request.submitted, started);
  stats.prefill_seconds = Seconds(started, first);
  stats.decode_seconds = Seconds(first, now);
  metrics_.Add(request.failed      ? &MetricsSnapshot::failed
               : request.cancelled ? &MetricsSnapshot::cancelled
                                   : &MetricsSnapshot::finished);
  if (trace_ != nullptr) trace_->AddRequest(request);
  request.stream->Close(stats);
}

// Publishes the events of the step, and closes the streams of requests that have ended.
void EngineCore::PublishAll() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  bool ended = false;
  for (RequestState* request : touched_) {
    request->stream->Publish();
    published_.push_back(request->stream);
    if (request->n_unfinished == 0) {
      EndStream(*request);
      ended = true;
    }
  }
  touched_.clear();
  if (!published_.empty()) {
    notifier_.Notify(published_);
    published_.clear();
  }
  if (ended) {
    sequences_.remove_if(
        [](const auto& sequence) { return sequence->IsFinished() && sequence->n_steps == 0; });
    for (const std::unique_ptr<RequestState>& request : requests_) {
      if (request->n_unfinished == 0 && request->request.sampling.constraint != nullptr) {
        masks_->Drop(std::move(request->request.sampling.constraint));
      }
    }
    requests_.remove_if([](const auto& request) { return request->n_unfinished == 0; });
  }
}

StepOutcome EngineCore::Step() {
  if (restore_ != nullptr) {
    restore_->Finish();
  }
  HandleCancels();
  if (IsInPass()) {
    GoOnWithPass();
    PublishAll();
    return StepOutcome::kRan;
  }
  std::unique_ptr<RunningStep> step = FreeStep();
  scheduler_->Plan(step->plan, static_cast<int>(running_steps_.size()));
  if (step->plan.segments.empty() && running_steps_.empty()) {
    const MaskWait wait = WaitForMask();
    if (wait == MaskWait::kReady) scheduler_->Plan(step->plan, 0);
    if (wait == MaskWait::kLate) {
      free_steps_.push_back(std::move(step));
      PublishAll();
      return StepOutcome::kRan;
    }
  }
  const bool begins = !step->plan.segments.empty();
  if (begins) {
    Begin(std::move(step));
  } else {
    free_steps_.push_back(std::move(step));
  }
  // A step that still has calls of the model to make, and all steps before it, end before the next
  // begins.
  const bool ends = !running_steps_.empty() && (!begins || free_steps_.empty() || MustEndNow());
  if (ends) {
    do {
      EndOldest();
    } while (MustEndNow());
  }
  PublishAll();
  if (begins || ends) return StepOutcome::kRan;
  return requests_.empty() ? StepOutcome::kIdle : StepOutcome::kStalled;
}

// Waits for the late mask of a sequence, which may have become ready since the plan was made. Call
// if nothing else can run. The wait is short: new requests and cancels must not wait for a mask
// that takes seconds.
EngineCore::MaskWait EngineCore::WaitForMask() {
  constexpr std::chrono::milliseconds kLongestWait(5);
  const auto& running = scheduler_->running();
  const auto late =
      std::ranges::find_if(running, [](const Sequence* sequence) { return !sequence->HasMask(); });
  if (late == running.end()) {
    const auto has_one = [](const Sequence* sequence) { return sequence->constraint != nullptr; };
    return std::ranges::any_of(running, has_one) ? MaskWait::kReady : MaskWait::kNone;
  }
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  return (*late)->constraint->WaitUntil(deadline) ? MaskWait::kReady : MaskWait::kLate;
}

std::unique_ptr<RunningStep> EngineCore::FreeStep() {
  std::unique_ptr<RunningStep> step = std::move(free_steps_.back());
  free_steps_.pop_back();
  step->seconds = step->model_seconds = 0;
  step->n_generated = 0;
  return step;
}

void EngineCore::Begin(std::unique_ptr<RunningStep> step) {
  step->alone = runner_.RunsAlone(step->plan, scheduler_->DecodingNow());
  while (step->alone && !running_steps_.empty()) {
    EndOldest();
  }
  // A failure of these steps has ended all choices of their requests.
  EraseFinished(step->plan);
  if (step->plan.segments.empty()) {
    free_steps_.push_back(std::move(step));
    return;
  }
  step->begun = Clock::now();
  if (pass_ && step->plan.n_prompt_tokens > 0) {
    BeginPass(std::move(step));
    return;
  }
  if (Status begun = runner_.Begin(*step); !begun) {
    FailPlan(step->plan, begun.error());
    free_steps_.push_back(std::move(step));
    return;
  }
  CountBegun(step->plan);
  FailAlone(step->plan);
  step->seconds = SecondsSince(step->begun);
  running_steps_.push_back(std::move(step));
}

void EngineCore::BeginPass(std::unique_ptr<RunningStep> step) {
  if (Status begun = pass_->Begin(step); !begun) {
    FailPlan(step->plan, begun.error());
    free_steps_.push_back(std::move(step));
  }
}

// Runs a layer of the pass, or a step of sequences that decode.
void EngineCore::GoOnWithPass() {
  if (pass_->IsAbandoned()) {
    free_steps_.push_back(pass_->Stop());
  } else if (!pass_->IsPauseDue() || !RunInPause()) {
    ContinuePass();
  }
}

// Returns false if no sequence can decode.
bool EngineCore::RunInPause() {
  std::unique_ptr<RunningStep> step = FreeStep();
  scheduler_->PlanBesidePass(step->plan);
  if (step->plan.segments.empty()) {
    free_steps_.push_back(std::move(step));
    return false;
  }
  const Clock::time_point begin = Clock::now();
  Begin(std::move(step));
  if (MustEndNow()) EndOldest();
  pass_->CountPause(SecondsSince(begin));
  return true;
}

void EngineCore::ContinuePass() {
  const Clock::time_point begin = Clock::now();
  const std::int64_t n_prompt_tokens = pass_->n_prompt_tokens();
  const Result<PassProgress> progress = pass_->Continue();
  if (progress && trace_ != nullptr) {
    trace_->AddLayer({begin, Clock::now(), *progress, n_prompt_tokens});
  }
  if (progress && !progress->HasEnded()) return;
  std::unique_ptr<RunningStep> step = pass_->Take();
  if (!progress) {
    HandleCancels();  // the pass may have stopped for them
    CountEnded(step->plan);
    FailPlan(step->plan, progress.error());
    free_steps_.push_back(std::move(step));
    return;
  }
  FailAlone(step->plan);
  running_steps_.push_back(std::move(step));
  EndOldest();
}

// Chooses the tokens of the step, finishes and commits sequences, drafts.
Status EngineCore::EndStep(RunningStep& step) {
  if (Status ended = runner_.End(step, finished_); !ended) return ended;
  EraseFinished(step.plan);  // sequences that ended while the step ran
  for (const PlannedSegment& segment : step.plan.segments) {
    if (segment.samples) {
      touched_.push_back(&segment.sequence->request);
    }
  }
  CommitFinished();
  FinishAll();
  if (Status drafted = runner_.Draft(step); !drafted) return drafted;
  CommitPlan(step.plan);
  return {};
}

void EngineCore::EndOldest() {
  std::unique_ptr<RunningStep> step = std::move(running_steps_.front());
  running_steps_.erase(running_steps_.begin());
  const Clock::time_point begin = Clock::now();
  CountEnded(step->plan);
  if (Status ended = EndStep(*step); ended) {
    const Clock::time_point end = Clock::now();
    step->seconds += Seconds(begin, end);
    scheduler_->RecordStepTime(step->plan, step->seconds);
    runner_.RecordStepTime(*step);
    Count(*step, end);
  } else {
    FailPlan(step->plan, ended.error());
  }
  free_steps_.push_back(std::move(step));
}

bool EngineCore::MustEndNow() const {
  return !running_steps_.empty() && !running_steps_.back()->IsAsked();
}

StreamingCounts EngineCore::ReportStreaming() {
  const std::optional<StreamingCounts> streaming = runner_.Streaming();
  if (streaming) metrics_.SetStreaming(*streaming);
  return streaming.value_or(StreamingCounts());
}

void EngineCore::Count(const RunningStep& step, Clock::time_point end) {
  const StepPlan& plan = step.plan;
  const StreamingCounts streaming = ReportStreaming();
  metrics_.CountStep({.prompt_tokens = plan.n_prompt_tokens,
                      .generated_tokens = step.n_generated,
                      .seconds = step.seconds,
                      .model_seconds = step.model_seconds});
  for (const PlannedSegment& segment : plan.segments) {
    RequestState& request = segment.sequence->request;
    if (!segment.samples || segment.sequence->sits_out) continue;
    if (!request.first_token) {
      request.first_token = end;
      metrics_.ObserveFirstToken(Seconds(request.submitted, end));
    } else {
      metrics_.ObserveInterToken(Seconds(request.last_token, end));
    }
    request.last_token = end;
  }
  caches_->Report();
  if (trace_ != nullptr) {
    trace_->AddStep({.begin = step.begun,
                     .end = end,
                     .n_decoding = plan.n_decoding,
                     .n_prompt_tokens = plan.n_prompt_tokens,
                     .n_generated = step.n_generated,
                     .engine_seconds = step.seconds - step.model_seconds,
                     .n_running = std::ssize(scheduler_->running()),
                     .n_waiting = std::ssize(scheduler_->waiting()),
                     .streaming = streaming});
  }
}

bool EngineCore::WaitForDisk() {
  if (restore_ == nullptr || !restore_->IsLoading()) return false;
  restore_->Wait();
  return true;
}

void EngineCore::SettleDisk() {
  while (WaitForDisk()) {
    restore_->Finish();
  }
  if (disk_ != nullptr) {
    disk_->Flush();
  }
}

void EngineCore::Close() {
  SettleDisk();
  if (restore_ != nullptr) {
    restore_->SaveAll();
  }
  if (trace_ != nullptr) {
    if (Status closed = trace_->Close(); !closed && options_.warn) {
      options_.warn(closed.error().message);
    }
  }
}

}  // namespace fathom::engine
