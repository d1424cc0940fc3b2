#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "engine/engine_core.h"
#include "model/draft/drafters.h"

namespace fathom {
namespace {

constexpr std::chrono::milliseconds kLongestStall(1000);

}  // namespace

struct Engine::Impl {
  Impl(LanguageModel& model, EngineOptions engine_options)
      : options(std::move(engine_options)),
        limits(model.Limits()),
        // Includes the counters of drafts even without drafts.
        metrics(std::max<std::int64_t>(limits.max_draft_depth, GreatestDraftDepth())) {}

  const EngineOptions options;
  const ModelLimits limits;
  EngineMetrics metrics;
  std::unique_ptr<EngineCore> core;
  std::shared_ptr<Waker> waker = std::make_shared<Waker>();
  std::mutex mutex;
  std::vector<std::unique_ptr<RequestState>> inbox;  // guarded by the mutex
  std::int64_t n_held = 0;                           // guarded: in the inbox or in the core
  bool clears_prefixes = false;                      // guarded: clear at the next step
  std::optional<ShutdownMode> shutdown;              // guarded
  std::mutex joining;
  std::jthread thread;

  void Run();
  Status RunSteps();
  // Moves new requests to the core; returns the requested shutdown.
  std::optional<ShutdownMode> TakeInbox();
};

std::optional<ShutdownMode> Engine::Impl::TakeInbox() {
  std::vector<std::unique_ptr<RequestState>> requests;
  std::optional<ShutdownMode> mode;
  bool clears = false;
  {
    const std::lock_guard lock(mutex);
    requests.swap(inbox);
    clears = std::exchange(clears_prefixes, false);
    mode = shutdown;
    n_held = core->n_requests() + static_cast<std::int64_t>(requests.size());
  }
  if (clears) core->ClearPrefixCache();
  for (std::unique_ptr<RequestState>& request : requests) {
    core->Add(std::move(request));
  }
  return mode;
}

void Engine::Impl::Run() {
  const Status ran = Guarded([this] { return RunSteps(); });
  if (ran) return;
  {
    const std::lock_guard lock(mutex);
    shutdown = ShutdownMode::kStop;
  }
  // Ending the requests needs little memory: what the failed step has freed must be enough.
  static_cast<void>(Guarded([&]() -> Status {
    TakeInbox();
    const bool says_so = ran.error().code == ErrorCode::kUnavailable;  // "the ranks have stopped"
    core->FailAll(
        {ErrorCode::kUnavailable,
         fmt::format("{}{}", says_so ? "" : "the engine has stopped: ", ran.error().message)});
    return {};
  }));
  if (options.on_failure) options.on_failure(ran.error());
}

Status Engine::Impl::RunSteps() {
  if (options.on_thread_start) {
    options.on_thread_start();
  }
  while (true) {
    const std::optional<ShutdownMode> mode = TakeInbox();
    if (mode == ShutdownMode::kStop) {
      core->CancelAll();
    }
    const StepOutcome outcome = core->Step();
    if (core->failure()) return Unexpected(*core->failure());
    if (outcome == StepOutcome::kIdle) {
      if (mode) break;
      waker->Wait();
    } else if (outcome == StepOutcome::kStalled && !core->WaitForDisk()) {
      waker->WaitFor(kLongestStall);
    }
  }
  core->Close();
  return {};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() { Shutdown(ShutdownMode::kStop); }

Result<std::unique_ptr<Engine>> Engine::Create(LanguageModel& model, EngineOptions options) {
  auto impl = std::make_unique<Impl>(model, std::move(options));
  Result<std::unique_ptr<EngineCore>> core =
      EngineCore::Create(model, impl->options, impl->metrics);
  if (!core) return Unexpected(core.error());
  impl->core = *std::move(core);
  Impl* running = impl.get();
  impl->thread = std::jthread([running] { running->Run(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<TokenStream> Engine::Submit(Request request) {
  Impl& m = *impl_;
  Result<std::unique_ptr<RequestState>> state = m.core->Prepare(std::move(request), m.waker);
  if (!state) {
    m.metrics.CountRefused();
    return Unexpected(state.error());
  }
  std::shared_ptr<StreamState> stream = (*state)->stream;
  {
    const std::lock_guard lock(m.mutex);
    if (m.shutdown) {
      m.metrics.CountRefused();
      return MakeError(ErrorCode::kUnavailable, "the engine is shutting down");
    }
    if (m.n_held >= m.options.max_waiting + m.limits.max_sequences) {
      m.metrics.CountRefused();
      return MakeError(ErrorCode::kResourceExhausted,
                       "expected at most {} requests at a time, found {}; try again later",
                       m.options.max_waiting + m.limits.max_sequences, m.n_held);
    }
    ++m.n_held;
    m.inbox.push_back(*std::move(state));
  }
  m.metrics.CountSubmitted();
  m.waker->Wake();
  return TokenStream(std::move(stream));
}

void Engine::ClearPrefixCache() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->clears_prefixes = true;
  }
  impl_->waker->Wake();
}

void Engine::Shutdown(ShutdownMode mode) {
  Impl& m = *impl_;
  {
    const std::lock_guard lock(m.mutex);
    if (!m.shutdown || mode == ShutdownMode::kStop) {
      m.shutdown = mode;
    }
  }
  m.waker->Wake();
  // Several threads may call Shutdown: one joins the engine's thread, the others wait for it.
  const std::lock_guard lock(m.joining);
  if (m.thread.joinable()) {
    m.thread.join();
  }
}

void Engine::CountRebalance(const EngineMetrics::Rebalance& rebalance) {
  impl_->metrics.CountRebalance(rebalance);
}

const EngineMetrics& Engine::metrics() const { return impl_->metrics; }
ModelLimits Engine::limits() const { return impl_->limits; }

}  // namespace fathom
