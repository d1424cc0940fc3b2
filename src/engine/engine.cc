#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/guarded.h"
#include "engine/engine_core.h"
#include "model/draft/drafters.h"

namespace fathom::engine {
namespace {

constexpr std::chrono::milliseconds kLongestStall(1000);

}  // namespace

// Includes the counters of drafts even without drafts.
Engine::Engine(LanguageModel& model, EngineOptions options)
    : options_(std::move(options)),
      limits_(model.Limits()),
      metrics_(std::max<std::int64_t>(limits_.max_draft_depth, GreatestDraftDepth())),
      waker_(std::make_shared<Waker>()) {}

Engine::~Engine() { Shutdown(ShutdownMode::kStop); }

std::optional<ShutdownMode> Engine::TakeInbox() {
  std::vector<std::unique_ptr<RequestState>> requests;
  std::optional<ShutdownMode> mode;
  bool clears = false;
  {
    const std::lock_guard lock(mutex_);
    requests.swap(inbox_);
    clears = std::exchange(clears_prefixes_, false);
    mode = shutdown_;
    n_held_ = core_->n_requests() + static_cast<std::int64_t>(requests.size());
  }
  if (clears) core_->ClearPrefixCache();
  for (std::unique_ptr<RequestState>& request : requests) {
    core_->Add(std::move(request));
  }
  return mode;
}

void Engine::Run() {
  const Status ran = Guarded([this] { return RunSteps(); });
  if (ran) return;
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = ShutdownMode::kStop;
  }
  // Ending the requests needs little memory: what the failed step has freed must be enough.
  static_cast<void>(Guarded([&]() -> Status {
    TakeInbox();
    const bool says_so = ran.error().code == ErrorCode::kUnavailable;  // "the ranks have stopped"
    core_->FailAll(
        {ErrorCode::kUnavailable,
         fmt::format("{}{}", says_so ? "" : "the engine has stopped: ", ran.error().message)});
    return {};
  }));
  if (options_.on_failure) options_.on_failure(ran.error());
}

Status Engine::RunSteps() {
  if (options_.on_thread_start) {
    options_.on_thread_start();
  }
  while (true) {
    const std::optional<ShutdownMode> mode = TakeInbox();
    if (mode == ShutdownMode::kStop) {
      core_->CancelAll();
    }
    const StepOutcome outcome = core_->Step();
    if (core_->failure()) return Unexpected(*core_->failure());
    if (outcome == StepOutcome::kIdle) {
      if (mode) break;
      waker_->Wait();
    } else if (outcome == StepOutcome::kStalled && !core_->WaitForDisk()) {
      waker_->WaitFor(kLongestStall);
    }
  }
  core_->Close();
  return {};
}

Result<std::unique_ptr<Engine>> Engine::Create(LanguageModel& model, EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(model, std::move(options)));
  Result<std::unique_ptr<EngineCore>> core =
      EngineCore::Create(model, engine->options_, engine->metrics_);
  if (!core) return Unexpected(core.error());
  engine->core_ = *std::move(core);
  engine->thread_ = std::jthread([running = engine.get()] { running->Run(); });
  return engine;
}

Result<TokenStream> Engine::Submit(Request request) {
  Result<std::unique_ptr<RequestState>> state = core_->Prepare(std::move(request), waker_);
  if (!state) {
    metrics_.Add(&MetricsSnapshot::refused);
    return Unexpected(state.error());
  }
  std::shared_ptr<StreamState> stream = (*state)->stream;
  {
    const std::lock_guard lock(mutex_);
    if (shutdown_) {
      metrics_.Add(&MetricsSnapshot::refused);
      return MakeError(ErrorCode::kUnavailable, "the engine is shutting down");
    }
    if (n_held_ >= options_.max_waiting + limits_.max_sequences) {
      metrics_.Add(&MetricsSnapshot::refused);
      return MakeError(ErrorCode::kResourceExhausted,
                       "expected at most {} requests at a time, found {}; try again later",
                       options_.max_waiting + limits_.max_sequences, n_held_);
    }
    ++n_held_;
    inbox_.push_back(*std::move(state));
  }
  metrics_.Add(&MetricsSnapshot::requests);
  waker_->Wake();
  return TokenStream(std::move(stream));
}

void Engine::ClearPrefixCache() {
  {
    const std::lock_guard lock(mutex_);
    clears_prefixes_ = true;
  }
  waker_->Wake();
}

void Engine::Shutdown(ShutdownMode mode) {
  {
    const std::lock_guard lock(mutex_);
    if (!shutdown_ || mode == ShutdownMode::kStop) {
      shutdown_ = mode;
    }
  }
  waker_->Wake();
  // Several threads may call Shutdown: one joins the engine's thread, the others wait for it.
  const std::lock_guard lock(joining_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace fathom::engine
