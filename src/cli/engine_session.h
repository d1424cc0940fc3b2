// A model that answers requests: what generate, chat and every other command with an engine begin
// with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/result.h"
#include "cli/expert_balance.h"
#include "cli/options/options.h"
#include "cli/rank_session.h"
#include "cli/session.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/log.h"
#include "cli/text_model.h"
#include "engine/engine.h"
#include "engine/language_model.h"

namespace fathom::cli {

struct EngineSessionOptions {
  const RunOptions& run;
  const EngineCliOptions& engine;
  RankSession& ranks;
  std::int64_t max_context = 1;                  // positions per sequence: ContextLength
  std::int64_t max_waiting = 4096;               // requests beside those that run; more are refused
  Interrupt* interrupt = nullptr;                // as Session::Load takes it
  std::function<void(double share)> progress{};  // as Session::Load takes it
};

// Owns backend, model and engine; movable. The thread of the engine runs the model, bound to the
// first of the processors if threads are bound.
class EngineSession {
 public:
  // `text_model`, the ranks and `log` must outlive it. Of several ranks, on the first: the others
  // are told to load their shares, and to follow. When one of them fails, RankSession::Check says
  // so, and every request ends with kUnavailable. Errors: those of Session::Load and
  // Engine::Create; a fixed depth of drafts for a checkpoint without an MTP head; options that
  // contradict each other.
  static Result<EngineSession> Load(const TextModel& text_model,
                                    const EngineSessionOptions& options, Log& log);

  Engine& engine() const { return *engine_; }
  const Model& model() const { return session_.model(); }
  std::int64_t n_context() const { return model().options().max_context; }
  double load_seconds() const { return load_seconds_; }

 private:
  EngineSession(Session session, std::unique_ptr<ExpertBalance> balance)
      : session_(std::move(session)), balance_(std::move(balance)) {}

  Session session_;
  std::unique_ptr<ExpertBalance> balance_;
  std::unique_ptr<LanguageModel> adapter_;
  std::unique_ptr<Engine> engine_;  // last: its thread uses the others
  double load_seconds_ = 0;
};

// A rank that is not the first: loads its share when the first one does, and computes what that is
// asked for until it has no more. Ctrl-C and SIGTERM are for the first rank.
Status FollowEngine(const RunOptions& run, RankSession& ranks, Log& log);

// Bytes of memory for the caches of a rank when --kv-memory does not say: what all sequences need
// at full context (`full_bytes`) and, for a prefix cache, four times as much or 1 GiB more,
// whichever is less; at most half of what is available.
std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache);

}  // namespace fathom::cli
