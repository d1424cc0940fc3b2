// Engine: many requests at once on one model; each gets the tokens it would get alone.
//
//   Result<std::unique_ptr<Engine>> engine = Engine::Create(model, {.eos_tokens = {1}, ...});
//   Result<TokenStream> stream = (*engine)->Submit({.prompt = tokens, .sampling = {...}});
//   for (StreamEvent event; stream->Next(event);) Show(event);
//
// One thread of its own runs the model; any thread may submit. What a request's answer is depends
// on its tokens, its sampling parameters and the model, and on nothing else: not on what runs
// beside it, how its prompt was cut, what the caches held, or whether it was drafted or preempted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "engine/language_model.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "engine/token_stream.h"
#include "kv_cache/disk_tier.h"

namespace fathom {

// How many tokens are drafted ahead of every verified one (docs/spec/mtp.md).
struct DraftOptions {
  bool enabled = false;
  std::int64_t depth = 0;  // 1 to kMaxDraftDepth: always so many; 0: as many as measurement pays
  // For measurements alone: a drafted token is accepted at this rate whether it is right or not,
  // and becomes part of the answer.
  std::optional<double> simulated_acceptance;
};

struct EngineOptions {
  std::vector<Token> eos_tokens;
  TokenBytes token_bytes;  // empty: events have no text, and stop strings are an error
  bool prefix_cache = true;
  DraftOptions draft;
  DiskTierOptions disk;
  std::string fingerprint;          // of the checkpoint: caches on disk belong to it alone
  std::int64_t max_waiting = 4096;  // requests that may wait; more are refused
  std::int64_t stream_events = 64;  // events a reader may be behind before its request pauses
  // Tokens of a step; 0: as many as the model takes.
  std::int64_t max_step_tokens = 0;
  // How long a step may take that reads prompts while others decode; 0: as long as it likes.
  double target_step_seconds = 0.25;
  std::filesystem::path trace;  // a Chrome trace is written there; empty: none
  // What is worth a line in a log; called from the engine's threads. May be empty.
  std::function<void(const std::string&)> warn;
  // The engine can do no other step, because memory has run out: all requests have ended with
  // kUnavailable, no others are taken. Called once, from the engine's thread. May be empty.
  std::function<void(const Error&)> on_failure;
  // Called once on the engine's thread before anything runs there (to bind it to a processor).
  std::function<void()> on_thread_start;
};

enum class ShutdownMode {
  kDrain,  // what was submitted is finished
  kStop,   // what runs or waits ends with kCancelled
};

// Uses the model, which must outlive it and which nobody else may use meanwhile.
class Engine {
 public:
  // Errors: a draft without a head, a directory that cannot be used.
  static Result<std::unique_ptr<Engine>> Create(LanguageModel& model, EngineOptions options);
  // Shuts down with kStop.
  ~Engine();

  // Any thread. Errors, with the field named: kInvalidArgument for what can never be answered (an
  // empty prompt, one longer than the context, a token outside the vocabulary, parameters out of
  // range, more memory than there is); kResourceExhausted: the queue is full, try again later;
  // kUnavailable: the engine is shutting down.
  Result<TokenStream> Submit(Request request);

  // Takes no more requests, and returns when the last has ended. Any thread; may be called again.
  void Shutdown(ShutdownMode mode);

  // For what the model does behind its steps; the engine's thread.
  void CountRebalance(const EngineMetrics::Rebalance& rebalance);

  // Any thread.
  const EngineMetrics& metrics() const;
  ModelLimits limits() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
