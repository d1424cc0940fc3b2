#include "model/model_limits.h"

#include <algorithm>

#include "model/draft/drafters.h"

namespace fathom::model {

StepLimits MakeStepLimits(const ModelConfig& config, const ModelOptions& options,
                          const DrafterKind* drafter) {
  const DraftSizes draft = drafter == nullptr ? DraftSizes() : drafter->sizes(config);
  return {.max_tokens = options.max_batch_tokens,
          .max_linear_inputs = std::max({config.hidden_size, config.q_lora_rank,
                                         config.o_groups * config.o_lora_rank,
                                         config.moe_intermediate_size, draft.max_linear_inputs}),
          .hidden = config.hidden_size,
          .head_dim = config.head_dim,
          .experts_per_token = config.num_experts_per_tok,
          .n_experts = config.n_routed_experts,
          .moe_intermediate = config.moe_intermediate_size,
          .sliding_window = config.sliding_window,
          .max_compressed_rows = options.max_context / 4,
          .attention_heads = config.num_attention_heads,
          .max_attended_rows = std::max<std::int64_t>(config.index_topk, options.max_context / 128),
          .max_block = draft.max_block,
          .max_logit_rows = options.max_logit_rows,
          .vocabulary = config.vocab_size};
}

Status CheckOptions(const ModelConfig& config, const ModelOptions& options) {
  if (options.max_context < 1 || options.max_context > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "context length: expected 1 to {} (max_position_embeddings), found {}",
                     config.max_position_embeddings, options.max_context);
  }
  if (options.max_sequences < 1 || options.max_batch_tokens < 1 || options.max_logit_rows < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "expected at least 1 sequence, 1 token per batch and 1 row of logits, found "
                     "{}, {} and {}",
                     options.max_sequences, options.max_batch_tokens, options.max_logit_rows);
  }
  if (options.pause_tokens < 0 || options.pause_tokens > options.max_batch_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "tokens of a batch beside a pass: expected 0 to {}, found {}",
                     options.max_batch_tokens, options.pause_tokens);
  }
  return {};
}

Status CheckBatch(const BatchView& batch, const ModelConfig& config, const ModelOptions& options,
                  std::int64_t max_tokens) {
  if (batch.n_tokens() > max_tokens) {
    return MakeError(ErrorCode::kInvalidArgument, "batch: expected at most {} tokens, found {}",
                     max_tokens, batch.n_tokens());
  }
  for (const Token token : batch.tokens) {
    if (token < 0 || token >= config.vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument, "token id: expected 0 to {}, found {}",
                       config.vocab_size - 1, token);
    }
  }
  for (const Segment& segment : batch.segments) {
    if (segment.sequence < 0 || segment.sequence >= options.max_sequences) {
      return MakeError(ErrorCode::kInvalidArgument, "sequence: expected 0 to {}, found {}",
                       options.max_sequences - 1, segment.sequence);
    }
    const std::int64_t first = segment.first_position;
    if (first < 0 || first + segment.n_tokens > options.max_context) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "sequence {}: expected positions 0 to {} (the context), found {} to {}",
                       segment.sequence, options.max_context - 1, first,
                       first + segment.n_tokens - 1);
    }
  }
  return {};
}

Status CheckOrder(const BatchView& batch, const SequenceCache& cache) {
  for (const Segment& segment : batch.segments) {
    const std::int64_t first = segment.first_position;
    const std::int64_t next = cache.next_position(segment.sequence);
    const std::int64_t earliest = cache.earliest_next(segment.sequence);
    if (first != 0 && (first > next || first < earliest)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "sequence {}: expected position 0 or {} to {}, found {}", segment.sequence,
                       earliest, next, first);
    }
  }
  return {};
}

}  // namespace fathom::model
