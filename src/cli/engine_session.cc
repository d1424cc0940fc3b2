#include "cli/engine_session.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/pages.h"
#include "checkpoint/head_kind.h"
#include "cli/checkpoint_fingerprint.h"
#include "cli/model_path.h"
#include "engine/model_adapter.h"
#include "engine/ranks/rank_calls.h"
#include "engine/ranks/rank_follower.h"
#include "engine/ranks/rank_leader.h"
#include "experts/sharded_parts.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"

namespace fathom::cli {
namespace {

// Of one call; those of many sequences are computed in turns.
constexpr std::int64_t kLogitRows = 64;

Status CheckOptions(const EngineSessionOptions& options) {
  const EngineCliOptions& engine = options.engine;
  if (!options.run.ranks.save_expert_placement.empty() && options.run.ranks.eplb_interval == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--save-expert-placement: expected --eplb-interval, with which experts move");
  }
  if (engine.max_batch_tokens < engine.max_sequences) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--max-batch-tokens: expected at least --max-sequences ({}), a token of each, "
                     "found {}",
                     engine.max_sequences, engine.max_batch_tokens);
  }
  if (!engine.kv_disk.empty() && !engine.prefix_cache) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--kv-disk: what is kept there is found by the prefix cache, and "
                     "--prefix-cache is off");
  }
  return {};
}

// A fixed depth is for the loader to refuse where there is no head: it knows what is missing.
bool WantsDrafts(const EngineCliOptions& engine, const Checkpoint& checkpoint) {
  if (engine.draft_depth) {
    return *engine.draft_depth > 0;
  }
  const Result<DraftHead> head = FindDraftHead(checkpoint);
  return head && head->kind == HeadKind::kMtp;
}

// What is the same on all ranks. kv_memory_bytes: kDefaultMemory unless it was given.
constexpr std::int64_t kDefaultMemory = -1;

ModelOptions SizesOf(const EngineSessionOptions& options, bool drafts) {
  const EngineCliOptions& engine = options.engine;
  const std::int64_t rows_of_one = 1 + (drafts ? kMaxDraftDepth : 0);
  return {.max_sequences = engine.max_sequences,
          .max_context = options.max_context,
          .max_batch_tokens =
              std::min(engine.max_batch_tokens, engine.max_sequences * options.max_context),
          .max_logit_rows = std::min(engine.max_sequences * rows_of_one, kLogitRows),
          .with_mtp = drafts,
          .kv_memory_bytes = engine.kv_memory_bytes.value_or(kDefaultMemory)};
}

struct LoadPlan {
  ModelOptions sizes;
  bool prefix_cache = true;
};

// What a rank has of the model, and how its experts are to move.
struct Share {
  Session session;
  std::unique_ptr<ExpertBalance> balance;
};

// On all ranks, with the plan of the first.
Result<Share> LoadShare(const ModelConfig& config, Checkpoint checkpoint, const RunOptions& run,
                        LoadPlan plan, RankSession& ranks, LoadWatch watch, Log& log) {
  const Result<const ModelRanks*> share = ranks.Cut(config, checkpoint);
  if (!share) return Unexpected(share.error());
  Result<ExpertBalance> balance = ExpertBalance::Create(run.ranks, *share, config, checkpoint);
  if (!balance) return Unexpected(balance.error());
  watch.ranks = *share;
  plan.sizes.parts = ShardedParts(*share, {.placement = balance->placement()});
  if (plan.sizes.kv_memory_bytes == kDefaultMemory) {
    plan.sizes.kv_memory_bytes = 0;
    const std::int64_t full_bytes = SequenceCache::FullBytes(ShardCache(
        CacheShapeOf(config, plan.sizes), *share ? (*share)->shard : WholeModel(config)));
    // As if all ranks were on this machine.
    const std::int64_t available =
        AvailableMemory().value_or(std::numeric_limits<std::int64_t>::max()) / ranks.all().size();
    plan.sizes.kv_memory_bytes = DefaultKvMemory(full_bytes, available, plan.prefix_cache);
  }
  Result<Session> session =
      Session::Load(config, std::move(checkpoint), run, plan.sizes, watch, log);
  if (!session) return Unexpected(session.error());
  Share loaded{*std::move(session), std::make_unique<ExpertBalance>(*std::move(balance))};
  loaded.balance->Begin(loaded.session.model(), log);
  return loaded;
}

Status BroadcastLoadPlan(const LoadPlan& plan, Communicator& all) {
  RankMessage message;
  message.Add(static_cast<std::int64_t>(RankCall::kLoad));
  AddSizes(plan.sizes, message);
  message.Add(std::int64_t{plan.prefix_cache});
  return message.Broadcast(all);
}

// None: the first rank has nothing to load.
Result<std::optional<LoadPlan>> ReceiveLoadPlan(Communicator& all) {
  RankMessage message;
  const Status told = message.Broadcast(all);
  if (!told) return Unexpected(told.error());
  if (static_cast<RankCall>(message.Take()) == RankCall::kEnd) {
    return std::optional<LoadPlan>();
  }
  LoadPlan plan;
  TakeSizes(message, plan.sizes);
  plan.prefix_cache = message.Take() != 0;
  if (!message.IsRead()) {
    return MakeError(ErrorCode::kInvalidData,
                     "rank 0 told something else than what to load: it is another program");
  }
  return std::optional(plan);
}

}  // namespace

std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  const std::int64_t more = prefix_cache ? std::min(4 * full_bytes, kGibibyte) : 0;
  return std::min(full_bytes + more, available_bytes / 2);
}

Result<EngineSession> EngineSession::Load(const TextModel& text_model,
                                          const EngineSessionOptions& options, Log& log) {
  const auto start = std::chrono::steady_clock::now();
  const EngineCliOptions& engine = options.engine;
  const Status valid = CheckOptions(options);
  if (!valid) return Unexpected(valid.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(text_model.directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  Result<std::string> fingerprint = std::string();
  if (!engine.kv_disk.empty()) {
    fingerprint = FingerprintOf(*checkpoint);
    if (!fingerprint) return Unexpected(fingerprint.error());
  }
  const bool drafts = WantsDrafts(engine, *checkpoint);
  const LoadPlan plan = {.sizes = SizesOf(options, drafts), .prefix_cache = engine.prefix_cache};
  RankSession& ranks = options.ranks;
  const Status told = BroadcastLoadPlan(plan, ranks.all());
  if (!told) return Unexpected(told.error());
  Result<Share> loaded =
      LoadShare(text_model.config, *std::move(checkpoint), options.run, plan, ranks,
                {.interrupt = options.interrupt, .progress = options.progress}, log);
  if (!loaded) return Unexpected(loaded.error());
  EngineSession session(std::move(loaded->session), std::move(loaded->balance));
  Model& model = session.session_.model();
  if (ranks.is_alone()) {
    session.adapter_ = std::make_unique<ModelAdapter>(model);
  } else {
    session.adapter_ = std::make_unique<RankLeader>(
        model, ranks.all(), [&ranks](const Error& error) { ranks.Fail(error); },
        session.balance_->Hook());
  }
  const Tokenizer* tokenizer = &text_model.tokenizer;
  Result<std::unique_ptr<Engine>> created = Engine::Create(
      *session.adapter_,
      {.eos_tokens = EosTokens(text_model),
       .token_bytes = [tokenizer](Token token) { return tokenizer->TokenBytes(token); },
       .prefix_cache = engine.prefix_cache,
       .draft = {.enabled = drafts,
                 .depth = engine.draft_depth.value_or(0),
                 .simulated_acceptance = engine.draft_acceptance},
       .disk = {.directory = engine.kv_disk, .max_bytes = engine.kv_disk_bytes},
       .fingerprint = *std::move(fingerprint),
       .max_waiting = options.max_waiting,
       .trace = engine.trace,
       .warn = [&log](const std::string& message) { log.Warn("{}", message); },
       .on_failure = [&ranks](const Error& error) { ranks.Fail(error); },
       .on_thread_start = [processors = session.session_.processors(),
                           &log] { BindModelThread(processors, log); }});
  if (!created) return Unexpected(created.error());
  session.engine_ = *std::move(created);
  session.balance_->set_on_end([engine = session.engine_.get()](const RebalanceReport& report) {
    engine->CountRebalance({.imbalance_before = report.imbalance_before,
                            .imbalance_after = report.imbalance_after,
                            .moved_experts = report.n_moved_experts,
                            .moved_bytes = report.moved_bytes,
                            .seconds = report.seconds});
  });
  session.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return session;
}

Status FollowEngine(const RunOptions& run, RankSession& ranks, Log& log) {
  Interrupt interrupt(Interrupt::Signals::kInterruptAndTerminate);
  const Result<std::optional<LoadPlan>> plan = ReceiveLoadPlan(ranks.all());
  if (!plan) return Unexpected(plan.error());
  if (!*plan) return {};
  const Result<std::filesystem::path> directory = FindModel(run.model);
  if (!directory) return Unexpected(directory.error());
  const Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  const Result<Share> share = LoadShare(*config, *std::move(checkpoint), run, **plan, ranks,
                                        {.interrupt = &interrupt}, log);
  if (!share) return Unexpected(share.error());
  BindModelThread(share->session.processors(), log);
  return FollowCalls(share->session.model(), ranks.all(), share->balance->Hook(),
                     [&log](const std::string& message) { log.Warn("{}", message); });
}

}  // namespace fathom::cli
