#include "model/model_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/cache_shape.h"
#include "model/model_limits.h"

namespace fathom::model {

Result<CacheShape> ModelState::ShapeOfCaches() const {
  return parts.tensor->ShardCache(MakeCacheShape(config, options, drafter_kind));
}

Status ModelState::Allocate() {
  if (Status reserved = backend.Reserve(MakeStepLimits(config, options, drafter_kind)); !reserved) {
    return reserved;
  }
  const Result<CacheShape> shape = ShapeOfCaches();
  if (!shape) return Unexpected(shape.error());
  Result<SequenceCache> caches = SequenceCache::Create(backend, *shape);
  if (!caches) return Unexpected(caches.error());
  cache = std::move(*caches);
  if (Status made = AllocatePass(long_pass, options.max_batch_tokens); !made) return made;
  if (options.pause_tokens > 0) {
    if (Status made = AllocatePass(short_pass, options.pause_tokens); !made) return made;
  }
  draft.Reserve(options.max_batch_tokens, options.max_sequences, stage().data);
  parts.tensor->set_logits(activations().logits);
  tokens.emplace(backend, *parts.tensor, activations());
  Result<RopeTables> tables = RopeTables::Create(backend, config);
  if (!tables) return Unexpected(tables.error());
  rope = *std::move(tables);
  copies.reserve(static_cast<std::size_t>(options.max_batch_tokens));
  return {};
}

Status ModelState::AllocatePass(ForwardPass& pass, std::int64_t max_tokens) {
  const std::int64_t n_layers = stage().end_layer - stage().first_layer;
  Result<Workspace> created =
      Workspace::Create(backend, config,
                        {.max_tokens = max_tokens,
                         .max_logit_rows = options.max_logit_rows,
                         .drafter = drafter_kind,
                         .has_device_logits = !backend.OnHost() && stage().is_whole,
                         .noted_layers = parts.notes_experts ? n_layers : 0});
  if (!created) return Unexpected(created.error());
  pass.workspace = *std::move(created);
  pass.Reserve(max_tokens, options.max_sequences, stage().data);
  return {};
}

Status ModelState::CheckBatch(const BatchView& batch) const {
  return model::CheckBatch(batch, config, options, max_tokens());
}

LayerCache& ModelState::BlockCache(std::int64_t block) {
  const std::int64_t n_draft = std::max<std::int64_t>(block - config.num_hidden_layers, 0);
  return cache->Layer(std::min(block, stage().end_layer) - stage().first_layer + n_draft);
}

Status ModelState::ExtendCache(const BatchView& batch) {
  for (const Segment& segment : batch.segments) {
    if (Status extended = cache->Extend(segment.sequence, segment.first_position, segment.n_tokens);
        !extended) {
      return extended;
    }
  }
  return {};
}

Result<Step> ModelState::MakeStep(Pass kind, const BatchView& whole) {
  ForwardPass& pass = kind == Pass::kMain ? *main : draft;
  pass.Begin(whole, stage().data);
  if (Status begun = backend.BeginStep(pass.local.batch(), cache->TakeTableChanges()); !begun) {
    return Unexpected(begun.error());
  }
  parts.store->BeginPass(pass);
  const Step step = StepOf(pass);
  rope->Fill(step.batch, step.a);
  return step;
}

Step ModelState::StepOf(ForwardPass& pass) {
  const BatchView& batch = pass.local.batch();
  return {.backend = backend,
          .config = config,
          .pass = pass,
          .batch = batch,
          .a = Trim(activations(), batch.n_tokens(), config.num_experts_per_tok),
          .compress_frequencies = rope->compress_frequencies(),
          .routing_observer = routing_observer,
          .tensor = *parts.tensor,
          .store = *parts.store,
          .experts = *parts.experts};
}

Status ModelState::StartTokens(Pass pass, Matrix<const Bf16> from,
                               std::span<const std::int32_t> rows, const HeadWeights& head_weights,
                               DescribeRows describe, int slot) {
  const auto n = static_cast<std::int64_t>(rows.size());
  Check(n <= options.max_logit_rows, "more rows of logits than ModelOptions::max_logit_rows");
  if (stage().is_last) {
    if (Status computed = ComputeLogits(pass, from, rows, head_weights, tokens->Room(n));
        !computed) {
      return computed;
    }
  }
  return tokens->Start(n, std::move(describe), slot);
}

Status ModelState::ComputeLogits(Pass pass, Matrix<const Bf16> from,
                                 std::span<const std::int32_t> rows,
                                 const HeadWeights& head_weights, Matrix<float> logits) {
  const ForwardPass& last = pass == Pass::kMain ? *main : draft;
  const Activations& a = activations();
  copies.clear();
  for (const std::int32_t row : rows) {
    Check(row >= 0 && row < std::ssize(last.positions),
          "logits of a row that the last step did not have");
    if (const std::int64_t local_row = last.local.LocalRow(row); local_row >= 0) {
      copies.push_back({a.head_streams.Row(std::ssize(copies)), from.Row(local_row),
                        from.cols * static_cast<std::int64_t>(sizeof(Bf16))});
    }
  }
  backend.CopyPieces(copies);
  const std::int64_t n_local = std::ssize(copies);
  const HcOptions hc_options = {.eps = config.hc_eps, .norm_eps = config.rms_norm_eps};
  const Matrix<Bf16> all = a.head_input.Rows(0, std::ssize(rows));
  const Matrix<Bf16> input = all.Rows(0, n_local);
  const Matrix<Bf16> hidden =
      head_weights.hidden.data == nullptr ? input : head_weights.hidden.Rows(0, n_local);
  backend.HcHead(a.head_streams.Rows(0, n_local), head_weights.hc, hc_options, hidden);
  backend.RmsNorm(hidden, head_weights.norm, config.rms_norm_eps, input);
  if (Status gathered = parts.tensor->GatherRows(last.positions, rows, all); !gathered)
    return gathered;
  backend.Linear(all, weights.head, logits);
  return {};
}

}  // namespace fathom::model
