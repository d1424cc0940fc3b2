#include "runtime/runtime.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/processors.h"
#include "engine/ranks/rank_calls.h"
#include "engine/ranks/rank_follower.h"
#include "engine/ranks/rank_leader.h"
#include "runtime/checkpoint_fingerprint.h"
#include "runtime/model_files.h"

namespace fathom::runtime {
namespace {

Status CheckOptions(const RuntimeOptions& options) {
  const ServingOptions& serving = options.serving;
  const RankOptions& ranks = options.run.ranks;
  if (!ranks.save_expert_placement.empty() && ranks.eplb_interval == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--save-expert-placement: expected --eplb-interval, with which experts move");
  }
  if (serving.max_batch_tokens.value_or(kDefaultBatchTokens) < serving.max_sequences) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--max-batch-tokens: expected at least --max-sequences ({}), a token of each, "
                     "found {}",
                     serving.max_sequences, serving.max_batch_tokens.value_or(kDefaultBatchTokens));
  }
  if (!serving.kv_disk.empty() && !serving.prefix_cache) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--kv-disk: what is kept there is found by the prefix cache, and "
                     "--prefix-cache is off");
  }
  return CheckRegularOrNone(serving.trace);
}

Status BroadcastLoadPlan(const LoadPlan& plan, Communicator& all) {
  RankMessage message;
  message.Write(RankCall::kLoad);
  WriteSizes(plan.sizes, message);
  message.Write(plan.prefix_cache, plan.drafts_are_optional, plan.steps_may_grow);
  return message.Broadcast(all);
}

// Returns none if the first rank has nothing to load.
Result<std::optional<LoadPlan>> ReceiveLoadPlan(Communicator& all) {
  RankMessage message;
  if (Status received = message.Broadcast(all); !received) return Unexpected(received.error());
  if (static_cast<RankCall>(message.Read()) == RankCall::kEnd) return std::optional<LoadPlan>();
  LoadPlan plan;
  ReadSizes(message, plan.sizes);
  message.Read(plan.prefix_cache, plan.drafts_are_optional, plan.steps_may_grow);
  if (!message.IsRead()) {
    return MakeError(ErrorCode::kInvalidData,
                     "rank 0 told something else than what to load: it is another program");
  }
  return std::optional(plan);
}

// Adds to the error the options for a size for which the machine has no memory.
Error WithRemedy(Error error) {
  if (error.code == ErrorCode::kOutOfMemory && error.message.find("--") == std::string::npos) {
    error.message +=
        "; smaller values of --max-sequences, --context, --kv-memory or --max-batch-tokens need "
        "less";
  }
  return error;
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::Load(const ModelFiles& files,
                                               const RuntimeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (Status valid = CheckOptions(options); !valid) return Unexpected(valid.error());
  const Result<std::int64_t> n_context = ContextLength(options.run, kDefaultContext, files.config);
  if (!n_context) return Unexpected(n_context.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(files.directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  Result<std::string> fingerprint = std::string();
  if (!options.serving.kv_disk.empty()) fingerprint = ComputeFingerprint(*checkpoint);
  if (!fingerprint) return Unexpected(fingerprint.error());
  const std::int64_t most_drafts = MostDrafts(options.serving, *checkpoint, files.config);
  const LoadPlan plan = MakeLoadPlan(options.serving, *n_context, most_drafts);
  RuntimeOptions with_ranks = options;
  std::unique_ptr<Runtime> runtime(new Runtime());
  if (options.ranks == nullptr) {
    runtime->alone_ = std::make_unique<RankProcess>(RankOptions());
    if (Status joined = runtime->alone_->Join(); !joined) return Unexpected(joined.error());
    with_ranks.ranks = runtime->alone_.get();
  }
  const Status sent = BroadcastLoadPlan(plan, with_ranks.ranks->all());
  if (!sent) return Unexpected(sent.error());
  Result<LoadedModel> loaded = LoadedModel::Load(files.config, *std::move(checkpoint), options.run,
                                                 plan, *with_ranks.ranks, options.events);
  if (!loaded) return Unexpected(WithRemedy(loaded.error()));
  runtime->loaded_ = std::make_unique<LoadedModel>(*std::move(loaded));
  const bool drafts = runtime->loaded_->model().options().with_draft;
  const Status created = runtime->CreateEngine(files, with_ranks, drafts, *std::move(fingerprint));
  if (!created) return Unexpected(created.error());
  runtime->load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return runtime;
}

Status Runtime::CreateEngine(const ModelFiles& files, const RuntimeOptions& options, bool drafts,
                             std::string fingerprint) {
  RankProcess& ranks = *options.ranks;
  const ServingOptions& serving = options.serving;
  const auto on_failure = [&ranks](const Error& error) { ranks.Fail(error); };
  ExpertBalance& balance = loaded_->balance();
  LanguageModel* model = &loaded_->model();
  if (!ranks.is_alone()) {
    leader_ =
        std::make_unique<RankLeader>(loaded_->model(), ranks.all(), on_failure, balance.Hook());
    model = leader_.get();
  }
  const bool fills_processors =
      loaded_->backend().OnHost() && FillsProcessors(options.run.n_threads);
  Result<std::unique_ptr<Engine>> created = Engine::Create(
      *model, {.eos_tokens = files.EosTokens(),
               .token_bytes = [&files](Token token) { return files.tokenizer.TokenBytes(token); },
               .prefix_cache = serving.prefix_cache,
               .draft = {.enabled = drafts,
                         .depth = serving.draft_depth.value_or(0),
                         .lookups = serving.lookup_depth != 0,
                         .lookup_depth = serving.lookup_depth.value_or(0),
                         .acceptance = serving.draft_acceptance},
               .disk = {.directory = serving.kv_disk, .max_bytes = serving.kv_disk_bytes},
               .fingerprint = std::move(fingerprint),
               .max_waiting = serving.max_waiting,
               .model_fills_processors = fills_processors,
               .trace = serving.trace,
               .warn = options.events.warn,
               .on_failure = on_failure,
               .on_thread_start = [loaded = loaded_.get()] { loaded->BindThread(); }});
  if (!created) return Unexpected(created.error());
  engine_ = *std::move(created);
  balance.set_on_end([engine = engine_.get()](const RebalanceReport& report) {
    engine->CountRebalance({.imbalance_before = report.imbalance_before,
                            .imbalance_after = report.imbalance_after,
                            .moved_experts = report.n_moved_experts,
                            .moved_bytes = report.moved_bytes,
                            .seconds = report.seconds});
  });
  return {};
}

Status FollowEngine(const RunOptions& run, RankProcess& ranks, const RuntimeEvents& events) {
  const Result<std::optional<LoadPlan>> plan = ReceiveLoadPlan(ranks.all());
  if (!plan) return Unexpected(plan.error());
  if (!*plan) return {};
  const Result<std::filesystem::path> directory = FindModel(run.model);
  if (!directory) return Unexpected(directory.error());
  const Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  const Result<LoadedModel> loaded =
      LoadedModel::Load(*config, *std::move(checkpoint), run, **plan, ranks, events);
  if (!loaded) return Unexpected(loaded.error());
  loaded->BindThread();
  return FollowCalls(loaded->model(), ranks.all(), loaded->balance().Hook(), events.warn);
}

}  // namespace fathom::runtime
