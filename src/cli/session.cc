#include "cli/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/processors.h"
#include "cli/backend_choice.h"
#include "cli/terminal/progress.h"

namespace fathom::cli {
namespace {

constexpr double kMegabyte = 1e6;

double Megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; }

}  // namespace

Result<Session> Session::Load(const std::filesystem::path& directory, const RunOptions& run,
                              const ModelOptions& options, const LoadWatch& watch, Log& log) {
  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  return Load(*std::move(config), *std::move(checkpoint), run, options, watch, log);
}

Result<Session> Session::Load(ModelConfig config, Checkpoint checkpoint, const RunOptions& run,
                              const ModelOptions& options, const LoadWatch& watch, Log& log) {
  const std::filesystem::path directory = checkpoint.path();
  const auto start = std::chrono::steady_clock::now();
  Session session;
  const Result<std::vector<int>> processors = ChooseProcessors(run);
  if (!processors) return Unexpected(processors.error());
  Result<std::unique_ptr<Backend>> backend = ChooseBackend(run, *processors, log);
  if (!backend) return Unexpected(backend.error());
  session.backend_ = *std::move(backend);

  ModelOptions with_memory = options;
  with_memory.weights = run.weights;
  with_memory.n_load_threads = run.n_threads;
  ProgressBar bar("loading " + directory.filename().string());
  Result<std::unique_ptr<Model>> model = Model::Load(
      std::move(config), std::move(checkpoint), *session.backend_, with_memory, [&](double share) {
        bar.Update(share);
        if (watch.progress) watch.progress(share);
        if (watch.interrupt != nullptr) watch.interrupt->EndProgramIfPressed();
      });
  if (!model) return Unexpected(model.error());
  session.model_ = *std::move(model);
  session.processors_ = *processors;
  session.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  for (const std::string& warning : session.model_->warnings()) {
    log.Warn("{}", warning);
  }
  session.log_ = &log;
  if (watch.ranks != nullptr) {
    session.rank_ = fmt::format("rank {}: ", watch.ranks->all->rank());
  }
  log.Info(
      "{}{}: {:.1f} MB of weights, {:.1f} MB of caches for {} tokens, {:.1f} MB of workspace, "
      "loaded in {:.1f} s",
      session.rank_, directory.string(), Megabytes(session.model_->weight_bytes()),
      Megabytes(session.model_->cache_bytes()), options.max_context,
      Megabytes(session.model_->workspace_bytes()), session.load_seconds_);
  return session;
}

Session::~Session() {
  if (model_ != nullptr && log_->Shows(LogLevel::kInfo)) {
    log_->Info("{}in the end {:.1f} MB of weights were in memory", rank_,
               Megabytes(model_->resident_weight_bytes()));
  }
}

// Not earlier: threads that load weights inherit what the thread that starts them is bound to.
void BindModelThread(std::span<const int> processors, Log& log) {
  if (!processors.empty() && !BindThisThread(processors.front())) {
    log.Warn("cannot bind the first thread to processor {}", processors.front());
  }
}

Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config) {
  if (run.n_context && *run.n_context > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context: expected at most {}, the positions of this model, found {}",
                     config.max_position_embeddings, *run.n_context);
  }
  return run.n_context.value_or(std::min(fallback, config.max_position_embeddings));
}

}  // namespace fathom::cli
