// A model that is ready to run, and what stands between its files and that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "cli/options/options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/log.h"
#include "distributed/model_ranks.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace fathom::cli {

// Who is asked and told while a model loads. Both may be null.
struct LoadWatch {
  Interrupt* interrupt = nullptr;                // what was pressed ends the program
  std::function<void(double share)> progress{};  // 0 to 1; called on the thread that loads
  const ModelRanks* ranks = nullptr;             // whose rank the log names
};

// Owns backend and model. One thread at a time.
class Session {
 public:
  // Shows a progress bar where that is wanted and tells the log about the checkpoint. The
  // weights lie where `run` wants them, whatever `options` says. The thread that is to run the
  // model calls BindModelThread; no thread is bound before that but those of the backend.
  static Result<Session> Load(const std::filesystem::path& directory, const RunOptions& run,
                              const ModelOptions& options, const LoadWatch& watch, Log& log);
  // The same of files that are open already.
  static Result<Session> Load(ModelConfig config, Checkpoint checkpoint, const RunOptions& run,
                              const ModelOptions& options, const LoadWatch& watch, Log& log);

  Model& model() const { return *model_; }
  double load_seconds() const { return load_seconds_; }
  // What the threads of the backend are bound to, the one that runs the model first; empty: not
  // bound.
  const std::vector<int>& processors() const { return processors_; }

  Session(Session&&) = default;
  Session& operator=(Session&&) = default;
  // Tells the log how much of the weights has come into memory.
  ~Session();

 private:
  Session() = default;

  std::unique_ptr<Backend> backend_;  // before the model, which must not outlive it
  std::unique_ptr<Model> model_;
  std::vector<int> processors_;
  double load_seconds_ = 0;
  Log* log_ = nullptr;
  std::string rank_;  // before what is said of several ranks
};

// Binds the calling thread to the first of these processors (Session::processors), where the
// backend expects the thread that runs the model. Threads started from then on inherit that.
void BindModelThread(std::span<const int> processors, Log& log);

// Positions to take memory for: `wanted` (--context), or `fallback` but no more than the model
// has. Error: the model has fewer than wanted.
Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config);

}  // namespace fathom::cli
