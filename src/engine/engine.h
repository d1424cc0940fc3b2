// Engine: runs many requests at once on one model; each gets the tokens it would get alone.
//
//   Result<std::unique_ptr<Engine>> engine = Engine::Create(model, {.eos_tokens = {1}, ...});
//   Result<TokenStream> stream = (*engine)->Submit({.prompt = tokens, .sampling = {...}});
//   for (StreamEvent event; stream->Next(event);) Show(event);
//
// The engine's own thread runs the model; any thread may submit. An answer depends only on the
// request's tokens, its sampling parameters and the model. It does not depend on what runs beside
// it, how its prompt was chunked, what was cached, or whether it was drafted or preempted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/draft_options.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/token_stream.h"
#include "kv_cache/disk_tier.h"
#include "model/language_model.h"

namespace fathom::engine {

struct EngineOptions {
  std::vector<Token> eos_tokens;
  TokenBytes token_bytes;  // empty: events have no text, and stop strings are an error
  bool prefix_cache = true;
  DraftOptions draft;
  DiskTierOptions disk;
  std::string fingerprint;          // identifies the checkpoint, and the valid caches on disk
  std::int64_t max_waiting = 4096;  // requests that may wait; Submit refuses more
  // The number of events by which a reader may lag before its request pauses.
  std::int64_t stream_events = 64;
  // The most tokens in a step; 0: the model's limit.
  std::int64_t max_step_tokens = 0;
  // Target time of a step that reads prompts while sequences decode; 0: no limit.
  double target_step_seconds = 0.25;
  // For tests of a model that pauses between layers: sequences that decode run after every layer of
  // a step of prompts, however long it took.
  bool pauses_each_layer = false;
  // True if the model computes on all processors that the program may use. The engine's thread then
  // computes quick masks of constraints between steps, because a second thread beside the model's
  // threads would delay all of them.
  bool model_fills_processors = false;
  std::filesystem::path trace;  // file for a Chrome trace; empty: none
  // Receives warnings for the log, from the engine's threads. May be empty.
  std::function<void(const std::string&)> warn;
  // Called once, from the engine's thread, if no further step can run because memory is exhausted
  // or the model can compute nothing (LanguageModel). All requests have then ended with
  // kUnavailable, and new ones are refused. May be empty.
  std::function<void(const Error&)> on_failure;
  // Called once on the engine's thread before anything else (to pin the thread to a processor).
  std::function<void()> on_thread_start;
};

enum class ShutdownMode {
  kDrain,  // finish all submitted requests
  kStop,   // end running and waiting requests with kCancelled
};

class EngineCore;     // engine/engine_core.h
class Waker;          // engine/stream_state.h
struct RequestState;  // engine/sequence.h

// Uses the model exclusively; the model must outlive the engine.
class Engine {
 public:
  // Errors: drafts without a draft head; a directory that cannot be used.
  static Result<std::unique_ptr<Engine>> Create(LanguageModel& model, EngineOptions options);
  // Shuts down with kStop.
  ~Engine();

  // Any thread. Errors name the field. kInvalidArgument: the request can never be answered (an
  // empty prompt, one longer than the context, a token outside the vocabulary, a parameter out of
  // range, more memory than there is). kResourceExhausted: the queue is full; try again later.
  // kUnavailable: the engine is shutting down.
  Result<TokenStream> Submit(Request request);

  // Clears the prefix cache: requests submitted from now on find none of the text that was read
  // before, except text that running requests use or that is on disk. Any thread.
  void ClearPrefixCache();

  // Refuses new requests, and returns when the last request has ended. Any thread; may be called
  // again.
  void Shutdown(ShutdownMode mode);

  // Counts a rebalancing of experts, which the model does between steps. Engine thread only.
  void CountRebalance(const EngineMetrics::Rebalance& rebalance) {
    metrics_.CountRebalance(rebalance);
  }

  // Any thread.
  const EngineMetrics& metrics() const { return metrics_; }
  const ModelLimits& limits() const { return limits_; }

 private:
  Engine(LanguageModel& model, EngineOptions options);
  void Run();
  Status RunSteps();
  // Moves new requests to the core; returns the requested shutdown.
  std::optional<ShutdownMode> TakeInbox();

  const EngineOptions options_;
  const ModelLimits limits_;
  EngineMetrics metrics_;
  std::unique_ptr<EngineCore> core_;
  const std::shared_ptr<Waker> waker_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RequestState>> inbox_;  // guarded by the mutex
  std::int64_t n_held_ = 0;                           // guarded: in the inbox or in the core
  bool clears_prefixes_ = false;                      // guarded: clear at the next step
  std::optional<ShutdownMode> shutdown_;              // guarded
  std::mutex joining_;
  std::jthread thread_;
};

}  // namespace fathom::engine
