#include "cli/engine_session.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/pages.h"
#include "checkpoint/head_kind.h"
#include "cli/checkpoint_fingerprint.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"

namespace fathom::cli {
namespace {

// Of one call; those of many sequences are computed in turns.
constexpr std::int64_t kLogitRows = 64;

Status CheckOptions(const EngineCliOptions& engine) {
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

ModelOptions ModelOptionsFor(const ModelConfig& config, const EngineSessionOptions& options,
                             bool drafts) {
  const EngineCliOptions& engine = options.engine;
  const std::int64_t rows_of_one = 1 + (drafts ? kMaxDraftDepth : 0);
  ModelOptions model = {.max_sequences = engine.max_sequences,
                        .max_context = options.max_context,
                        .max_batch_tokens = std::min(engine.max_batch_tokens,
                                                     engine.max_sequences * options.max_context),
                        .max_logit_rows = std::min(engine.max_sequences * rows_of_one, kLogitRows),
                        .with_mtp = drafts};
  const std::int64_t full_bytes = SequenceCache::FullBytes(CacheShapeOf(config, model));
  const std::int64_t available =
      AvailableMemory().value_or(std::numeric_limits<std::int64_t>::max());
  model.kv_memory_bytes =
      engine.kv_memory_bytes.value_or(DefaultKvMemory(full_bytes, available, engine.prefix_cache));
  return model;
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
  const Status valid = CheckOptions(engine);
  if (!valid) return Unexpected(valid.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(text_model.directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  Result<std::string> fingerprint = std::string();
  if (!engine.kv_disk.empty()) {
    fingerprint = FingerprintOf(*checkpoint);
    if (!fingerprint) return Unexpected(fingerprint.error());
  }
  const bool drafts = WantsDrafts(engine, *checkpoint);
  Result<Session> loaded =
      Session::Load(text_model.config, *std::move(checkpoint), options.run,
                    ModelOptionsFor(text_model.config, options, drafts),
                    {.interrupt = options.interrupt, .progress = options.progress}, log);
  if (!loaded) return Unexpected(loaded.error());
  EngineSession session(*std::move(loaded));
  session.adapter_ = std::make_unique<ModelAdapter>(session.session_.model());
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
       .on_thread_start = [processors = session.session_.processors(),
                           &log] { BindModelThread(processors, log); }});
  if (!created) return Unexpected(created.error());
  session.engine_ = *std::move(created);
  session.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return session;
}

}  // namespace fathom::cli
