// Runtime: a model that answers requests. A program that runs a model links fathom_runtime and
// begins with these lines:
//
//   Result<ModelFiles> files = ModelFiles::Read("");   // the embedded model
//   Result<std::unique_ptr<Runtime>> runtime = Runtime::Load(*files, {});
//   Result<TokenStream> stream = (*runtime)->engine().Submit({.prompt = tokens});
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "model/language_model.h"
#include "planning/options.h"
#include "runtime/loaded_model.h"
#include "runtime/model_files.h"
#include "runtime/rank_process.h"

namespace fathom::runtime {

struct RuntimeOptions {
  RunOptions run{};  // `model` is ignored; no n_context: kDefaultContext, or the model's if less
  ServingOptions serving{};
  RankProcess* ranks = nullptr;  // the joined first rank; must outlive this; null: no ranks
  RuntimeEvents events{};
};

// Owns backend, model and engine. The engine's thread runs the model; it is bound to the first of
// the processors if threads are bound.
class Runtime {
 public:
  // `files` must outlive the runtime. With several ranks, the other ranks call FollowEngine and
  // receive from this call the model to load. When one of them fails, RankProcess::Check returns
  // the error, and every request ends with kUnavailable. Errors: see LoadedModel::Load and
  // Engine::Create; a fixed draft depth for a checkpoint without a draft head; options that
  // contradict each other.
  static Result<std::unique_ptr<Runtime>> Load(const ModelFiles& files,
                                               const RuntimeOptions& options);

  Engine& engine() const { return *engine_; }
  const Model& model() const { return loaded_->model(); }
  std::int64_t n_context() const { return model().options().max_context; }
  double load_seconds() const { return load_seconds_; }

 private:
  Runtime() = default;
  Status CreateEngine(const ModelFiles& files, const RuntimeOptions& options, bool drafts,
                      std::string fingerprint);

  std::unique_ptr<RankProcess> alone_;  // used if the caller gave no ranks
  std::unique_ptr<LoadedModel> loaded_;
  std::unique_ptr<LanguageModel> leader_;  // null: one process
  std::unique_ptr<Engine> engine_;         // declared last: its thread uses the others
  double load_seconds_ = 0;
};

// Runs a rank that is not the first: loads its part of the model when the first rank does, and
// computes its part of each call of the first rank until the run ends.
Status FollowEngine(const RunOptions& run, RankProcess& ranks, const RuntimeEvents& events);

}  // namespace fathom::runtime
