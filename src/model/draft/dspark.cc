#include "model/draft/dspark.h"

#include <algorithm>

#include "base/check.h"
#include "model/draft/stream_check.h"
#include "model/model_limits.h"
#include "model/model_state.h"
#include "model/model_tensors.h"

namespace fathom::model {
namespace {

// Indices, in the order of DSparkTensors.
enum DSparkMatrices {
  kMainProj,    // [hidden, targets * hidden]
  kMarkovW1,    // [vocab, rank]: a row for the token before a draft
  kMarkovW2,    // [vocab, rank]
  kConfidence,  // [1, hidden + rank]
};
enum DSparkVectors { kMainNorm, kLastNorm };  // [hidden]

// Drafts that cannot be rolled back cannot be verified, so no more are made.
constexpr int kMaxDepth = static_cast<int>(kRollbackTokens);

// Announces the published drafter for models of this size, which reads the last three layers.
void AnnounceDSpark(ModelConfig& config) {
  constexpr std::int64_t kNoiseToken = 128'799;
  constexpr std::int64_t kFlashHidden = 4096;
  config.num_nextn_predict_layers = 1;
  DSparkConfig& dspark = config.dspark.emplace();
  dspark.n_stages = 3;
  dspark.dspark_block_size = 5;
  dspark.dspark_markov_rank = config.hidden_size > kFlashHidden ? 512 : 256;
  dspark.dspark_noise_token_id = std::min(kNoiseToken, config.vocab_size - 1);
  const auto n_layers = static_cast<int>(config.num_hidden_layers);
  for (int layer = std::max(n_layers - 3, 0); layer < n_layers; ++layer) {
    dspark.dspark_target_layer_ids.push_back(layer);
  }
}

Status AdoptDSpark(int n_stages, ModelConfig& config) {
  if (!config.dspark) {
    return MakeError(ErrorCode::kInvalidData,
                     "config.json: dspark_block_size: expected the numbers of the DSpark drafter "
                     "that the tensors have ({}), found none",
                     kDSparkDrafter.mark);
  }
  config.dspark->n_stages = n_stages;
  return {};
}

std::vector<ModelTensor> DSparkTensors(const ModelConfig& config) {
  using enum ModelTensor::Kind;
  const DSparkConfig& dspark = *config.dspark;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t rank = dspark.dspark_markov_rank;
  const std::int64_t targets = std::ssize(dspark.dspark_target_layer_ids);
  std::vector<ModelTensor> tensors = {
      {"main_norm", kVector, hidden},
      {"main_proj", kFp8, hidden, targets * hidden},
      {"markov_head.markov_w1", kTable, config.vocab_size, rank},
      {.name = "markov_head.markov_w2",
       .kind = kBf16,
       .rows = config.vocab_size,
       .cols = rank,
       .shard = ModelTensor::Shard::kVocabulary},
      {"confidence_head.proj", kBf16, 1, hidden + rank},
      {"norm", kVector, hidden},
  };
  // The first two make the features of the first stage; the others choose drafts.
  for (std::size_t i = 2; i < tensors.size(); ++i) tensors[i].stage = dspark.n_stages - 1;
  return tensors;
}

DraftSizes SizesOfDSpark(const ModelConfig& config) {
  const DSparkConfig& dspark = *config.dspark;
  const std::int64_t inputs = std::ssize(dspark.dspark_target_layer_ids) * config.hidden_size;
  const auto markov_bytes =
      config.vocab_size * dspark.dspark_markov_rank * static_cast<std::int64_t>(sizeof(Bf16));
  return {
      .ratios = std::vector<int>(static_cast<std::size_t>(dspark.n_stages), 0),
      .deferred_bytes = config.sliding_window * inputs * static_cast<std::int64_t>(sizeof(Bf16)),
      .input_columns = inputs,
      .embedding_columns = dspark.dspark_markov_rank,
      .max_linear_inputs = std::max(inputs, config.hidden_size + dspark.dspark_markov_rank),
      .max_block = dspark.dspark_block_size,
      .unread_bytes = 2 * markov_bytes,  // w1, of which only rows are read, and w2
      .bytes_per_draft = markov_bytes};
}

// Returns the first n rows of a matrix with fewer columns, in its memory.
template <class T>
Matrix<T> WithColumns(Matrix<T> memory, std::int64_t n, std::int64_t cols) {
  return {memory.data, n, cols};
}

}  // namespace

constinit const DrafterKind kDSparkDrafter = {
    .name = "DSpark",
    .option = "dspark",
    .description = "a DSpark head (mtp.0.main_proj.weight and others)",
    .prefix = "mtp.",
    .mark = "mtp.0.main_proj.weight",
    .max_depth = kMaxDepth,
    .depth =
        [](const ModelConfig& config) {
          return std::min(kMaxDepth, static_cast<int>(config.dspark->dspark_block_size));
        },
    .first_layer = [](const ModelConfig& config) -> std::int64_t {
      return config.dspark->dspark_target_layer_ids.front();
    },
    .is_announced = [](const ModelConfig& config) { return config.dspark.has_value(); },
    .announce = AnnounceDSpark,
    .adopt = AdoptDSpark,
    .tensors = DSparkTensors,
    .sizes = SizesOfDSpark,
    .make = [](ModelState& model) -> std::unique_ptr<Drafter> {
      return std::make_unique<DSparkDrafter>(model);
    },
};

DSparkDrafter::DSparkDrafter(ModelState& model) : model_(model) {
  const ModelOptions& options = model.options;
  const auto n_rows = static_cast<std::size_t>(options.max_logit_rows);
  committed_.reserve(static_cast<std::size_t>(options.max_batch_tokens));
  anchors_.reserve(static_cast<std::size_t>(options.max_batch_tokens));
  deferred_.resize(static_cast<std::size_t>(options.max_sequences));
  blocks_.Reserve(options.max_batch_tokens, options.max_sequences);
  late_.Reserve(options.max_batch_tokens, options.max_sequences);
  late_tokens_.resize(static_cast<std::size_t>(model.config.sliding_window));
  block_tokens_.assign(static_cast<std::size_t>(config().dspark_block_size),
                       static_cast<Token>(config().dspark_noise_token_id));
  drafting_.reserve(n_rows);
  for (auto* list : {&rows_, &indices_}) list->reserve(n_rows);
  tokens_.reserve(n_rows);
  confidences_.reserve(n_rows);
}

int DSparkDrafter::max_depth() const { return kDSparkDrafter.depth(model_.config); }
const DSparkConfig& DSparkDrafter::config() const { return *model_.config.dspark; }
const DraftWeights& DSparkDrafter::weights() const { return *model_.weights.draft; }

// --- Keys of positions (docs/spec/mtp.md 2.3, 2.4) ---

void DSparkDrafter::Tap(std::int64_t layer, const BatchView& whole, const Step& step) {
  const std::vector<int>& targets = config().dspark_target_layer_ids;
  const auto target = std::ranges::find(targets, static_cast<int>(layer));
  if (target == targets.end()) return;
  step.backend.MeanOfStreams(step.a.streams, (target - targets.begin()) * step.config.hidden_size,
                             step.a.draft_input);
  if (target + 1 < targets.end()) return;
  const bool stores_keys =
      trace_ != nullptr ||
      std::ranges::any_of(whole.segments, [](const Segment& s) { return s.n_tokens > 1; });
  KeepFeatures(whole, step, stores_keys);
  if (stores_keys) AppendKeys(step);
}

// Returns the place of the features of one of the newest positions.
Bf16* DSparkDrafter::Features(std::int32_t sequence, std::int64_t position) const {
  const std::int64_t columns = model_.activations().draft_input.cols;
  return reinterpret_cast<Bf16*>(model_.cache->Deferred(sequence)) +
         position % model_.config.sliding_window * columns;
}

// Stores the features of the step's positions, step.a.draft_input, if their keys are not stored now
// or some keys before them are missing: the positions with features of a sequence have no gap.
// Every rank tracks all sequences.
void DSparkDrafter::KeepFeatures(const BatchView& whole, const Step& step, bool stores_keys) {
  const std::int64_t window = model_.config.sliding_window;
  const Matrix<const Bf16> features = step.a.draft_input;
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  for (const Segment& segment : whole.segments) {
    Deferred& kept = deferred_[static_cast<std::size_t>(segment.sequence)];
    const std::int64_t n_starts = model_.cache->state(segment.sequence).n_starts;
    const std::int64_t first = segment.first_position;
    const std::int64_t end = first + segment.n_tokens;
    const bool goes_on = kept.n_starts == n_starts && kept.first < first && first <= kept.end;
    if (stores_keys && (!goes_on || end - window >= first)) {
      kept = {.n_starts = n_starts, .first = end, .end = end};
      continue;
    }
    kept = {.n_starts = n_starts,
            .first = std::max(goes_on ? kept.first : first, end - window),
            .end = end};
    if (!model_.parts.tensor->IsLocal(segment.sequence)) continue;
    for (std::int64_t i = std::max(first, end - window) - first; i < segment.n_tokens; ++i) {
      copies.push_back({Features(segment.sequence, first + i),
                        features.Row(model_.main->local.LocalRow(segment.first_row + i)),
                        features.cols * static_cast<std::int64_t>(sizeof(Bf16))});
    }
  }
  step.backend.CopyPieces(copies);
}

// Stores the missing keys of the sequences of blocks_, as many at a time as a pass has rows for.
Status DSparkDrafter::StoreDeferredKeys() {
  late_.Clear();
  for (const Segment& block : blocks_.View().segments) {
    Deferred& kept = deferred_[static_cast<std::size_t>(block.sequence)];
    if (kept.n_starts != model_.cache->state(block.sequence).n_starts) continue;
    const std::int64_t end = std::min<std::int64_t>(kept.end, block.first_position);
    while (kept.first < end) {
      if (late_.n_tokens() == model_.max_tokens()) {
        if (Status stored = StoreKeptKeys(late_.View()); !stored) return stored;
        late_.Clear();
      }
      const std::int64_t n = std::min(end - kept.first, model_.max_tokens() - late_.n_tokens());
      late_.Add(block.sequence, static_cast<std::int32_t>(kept.first),
                std::span<const Token>(late_tokens_).first(static_cast<std::size_t>(n)));
      kept.first += n;
    }
  }
  return late_.n_tokens() == 0 ? Status() : StoreKeptKeys(late_.View());
}

Status DSparkDrafter::StoreKeptKeys(const BatchView& positions) {
  const Result<Step> step = model_.MakeStep(Pass::kDraft, positions);
  if (!step) return Unexpected(step.error());
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  for (std::int64_t i = 0; i < positions.n_tokens(); ++i) {
    const TokenPosition at = RowPosition(positions, i);
    if (!model_.parts.tensor->IsLocal(at.sequence)) continue;
    copies.push_back({step->a.draft_input.Row(model_.draft.local.LocalRow(i)),
                      Features(at.sequence, at.position),
                      step->a.draft_input.cols * static_cast<std::int64_t>(sizeof(Bf16))});
  }
  step->backend.CopyPieces(copies);
  AppendKeys(*step);
  return {};
}

// step.a.draft_input: the features of the step's positions.
void DSparkDrafter::AppendKeys(const Step& step) {
  Backend& backend = step.backend;
  const float eps = step.config.rms_norm_eps;
  const Matrix<Bf16> main_x = step.a.y;
  backend.Linear(step.a.draft_input, weights().matrices[kMainProj], main_x);
  backend.RmsNorm(main_x, weights().vectors[kMainNorm], eps, main_x);
  for (const BlockWeights& stage : weights().blocks) {
    WindowKeys(step, stage.attn, main_x, step.Rope(0));
    backend.AppendWindow(step.a.kv, step.batch, model_.BlockCache(stage.index).window);
  }
  if (trace_ != nullptr) trace_->AddMainX(backend, main_x);
}

Status DSparkDrafter::Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                              StreamSource source) {
  const BatchView view = next.View();
  if (Status status = model_.CheckBatch(view); !status) return status;
  return CheckStreams(model_, view, stream_rows, source);
}

// Only checks and remembers the commit: Propose stores the keys that are missing.
Status DSparkDrafter::Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                             StreamSource source) {
  if (Status prepared = Prepare(next, stream_rows, source); !prepared) return prepared;
  const BatchView view = next.View();
  ListPositions(view, committed_);
  anchors_.assign(view.tokens.begin(), view.tokens.end());
  return {};
}

// --- Blocks (docs/spec/mtp.md 2.5) ---

// Runs as many requests at a time as one pass, and one call of the head, has rows for.
Status DSparkDrafter::Propose(std::span<const DraftRequest> requests,
                              const DescribeDrafts& describe, const ChooseDrafts& choose) {
  const std::int64_t block = config().dspark_block_size;
  std::size_t first = 0;
  while (first < requests.size()) {
    drafting_.clear();
    blocks_.Clear();
    std::int64_t n_logits = 0;
    std::size_t end = first;
    for (; end < requests.size(); ++end) {
      const auto [row, wanted] = requests[end];
      Check(row >= 0 && row < std::ssize(committed_), "drafts behind a row that was not committed");
      const std::int64_t n = std::min({wanted, block, model_.options.max_logit_rows});
      if (n <= 0) continue;
      if (n_logits + n > model_.options.max_logit_rows ||
          blocks_.n_tokens() + block > model_.max_tokens()) {
        break;
      }
      const auto at = static_cast<std::size_t>(row);
      drafting_.push_back({.request = static_cast<std::int32_t>(end),
                           .block_row = static_cast<std::int32_t>(blocks_.n_tokens()),
                           .logits_row = static_cast<std::int32_t>(n_logits),
                           .n_left = n,
                           .token = anchors_[at]});
      block_tokens_.front() = anchors_[at];
      blocks_.Add(committed_[at].sequence, committed_[at].position + 1, block_tokens_);
      n_logits += n;
    }
    first = end;
    if (Status drafted = DraftTile(describe, choose); !drafted) return drafted;
  }
  return {};
}

// Runs the blocks of drafting_ and chooses their drafts.
Status DSparkDrafter::DraftTile(const DescribeDrafts& describe, const ChooseDrafts& choose) {
  if (drafting_.empty()) return {};
  if (model_.stage().is_last) {
    Status ran = StoreDeferredKeys();
    if (ran) ran = RunBlocks();
    if (ran) ran = ComputeLogits();
    if (!ran) {
      model_.ResetSequences(blocks_.View().segments);
      return ran;
    }
  }
  for (std::int64_t depth = 0; !drafting_.empty(); ++depth) {
    if (Status chosen = Choose(depth, describe, choose); !chosen) return chosen;
    std::erase_if(drafting_, [](const Drafting& drafting) {
      return drafting.token == kNoDraft || drafting.n_left == 0;
    });
  }
  return {};
}

// blocks_ -> a.draft_streams: runs all stages.
Status DSparkDrafter::RunBlocks() {
  Result<Step> step = model_.MakeStep(Pass::kDraft, blocks_.View());
  if (!step) return Unexpected(step.error());
  step->is_draft_block = true;
  const Matrix<Bf16> streams = step->a.draft_streams;
  if (Status status = step->tensor.Embed(step->batch, model_.weights.embed, step->a, streams);
      !status) {
    return status;
  }
  if (trace_ != nullptr) trace_->BeginBlocks(step->backend, streams);
  for (const BlockWeights& stage : weights().blocks) {
    if (Status ran = RunBlock(*step, stage, model_.BlockCache(stage.index), streams); !ran) {
      return ran;
    }
    if (trace_ != nullptr) trace_->AddStreams(step->backend, streams);
  }
  ListPositions(blocks_.View(), model_.draft.positions);
  return {};
}

// Computes the logits of all requested drafts, without the bias, into a.draft_logits.
Status DSparkDrafter::ComputeLogits() {
  rows_.clear();
  for (const Drafting& drafting : drafting_) {
    for (std::int64_t i = 0; i < drafting.n_left; ++i) {
      rows_.push_back(drafting.block_row + static_cast<std::int32_t>(i));
    }
  }
  const Activations& a = model_.activations();
  const Matrix<float> logits =
      WithColumns(a.draft_logits, std::ssize(rows_), model_.weights.head.n);
  return model_.ComputeLogits(
      Pass::kDraft, a.draft_streams, rows_,
      {.hc = weights().hc_head, .norm = weights().vectors[kLastNorm], .hidden = a.draft_hidden},
      logits);
}

// Adds to the logits of the drafts at `depth` the bias of the tokens before them; logits
// [drafting_, columns of this process].
void DSparkDrafter::AddBias(std::int64_t depth, Matrix<float> logits) {
  Backend& backend = model_.backend;
  const Activations& a = model_.activations();
  const std::int64_t n = std::ssize(drafting_);
  const Weight& table = weights().matrices[kMarkovW1];
  const Matrix<Bf16> embeddings = a.draft_embeddings.Rows(0, n);
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  for (std::int64_t i = 0; i < n; ++i) {
    const Token token = drafting_[static_cast<std::size_t>(i)].token;
    copies.push_back({embeddings.Row(i),
                      reinterpret_cast<const Bf16*>(table.data) + token * table.k,
                      table.k * static_cast<std::int64_t>(sizeof(Bf16))});
  }
  backend.CopyPieces(copies);
  backend.Linear(embeddings, weights().matrices[kMarkovW2], logits);
  const Matrix<float> base = WithColumns(a.draft_logits, a.draft_logits.rows, logits.cols);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = drafting_[static_cast<std::size_t>(i)].logits_row + depth;
    if (trace_ != nullptr) trace_->AddBaseLogits(backend, base.Rows(row, 1));
    backend.Add(base.Rows(row, 1), logits.Rows(i, 1), logits.Rows(i, 1));
  }
  if (trace_ != nullptr) trace_->AddLogits(backend, logits);
}

// Computes the confidences of the drafts at `depth`, whose embeddings are known.
void DSparkDrafter::ComputeConfidences(std::int64_t depth) {
  Backend& backend = model_.backend;
  const Activations& a = model_.activations();
  const std::int64_t n = std::ssize(drafting_);
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  const auto bytes = [](std::int64_t cols) {
    return cols * static_cast<std::int64_t>(sizeof(Bf16));
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = drafting_[static_cast<std::size_t>(i)].logits_row + depth;
    Bf16* const pair = a.draft_pairs.Row(i);
    copies.push_back({pair, a.draft_hidden.Row(row), bytes(a.draft_hidden.cols)});
    copies.push_back(
        {pair + a.draft_hidden.cols, a.draft_embeddings.Row(i), bytes(a.draft_embeddings.cols)});
  }
  backend.CopyPieces(copies);
  backend.Linear(a.draft_pairs.Rows(0, n), weights().matrices[kConfidence],
                 a.confidences.Rows(0, n));
  confidences_.resize(static_cast<std::size_t>(n));
  backend.Download(std::as_writable_bytes(std::span(confidences_)), a.confidences.data);
}

// Lets the drafts at `depth` be chosen.
Status DSparkDrafter::Choose(std::int64_t depth, const DescribeDrafts& describe,
                             const ChooseDrafts& choose) {
  const std::int64_t n = std::ssize(drafting_);
  confidences_.clear();
  if (model_.stage().is_last) {
    AddBias(depth, model_.tokens->Room(n));
    if (model_.parts.tensor->is_whole()) ComputeConfidences(depth);
  }
  indices_.clear();
  bool goes_on = false;
  for (const Drafting& drafting : drafting_) {
    indices_.push_back(drafting.request);
    goes_on = goes_on || drafting.n_left > 1;
  }
  const auto describe_rows = [&] { return describe(indices_); };
  if (Status started =
          model_.tokens->Start(n, describe ? DescribeRows(describe_rows) : DescribeRows(), 0);
      !started) {
    return started;
  }
  const Result<ChosenTokens> found = model_.tokens->Finish(0);
  if (!found) return Unexpected(found.error());
  tokens_.assign(static_cast<std::size_t>(n), kNoDraft);
  if (trace_ != nullptr) trace_->AddConfidences(confidences_);
  const DraftLogits drafts = {.requests = indices_,
                              .logits = found->logits,
                              .choices = found->choices,
                              .every_rank_needs_tokens = goes_on,
                              .confidences = confidences_};
  if (Status chosen = choose(drafts, tokens_); !chosen) return chosen;
  for (std::size_t i = 0; i < drafting_.size(); ++i) {
    drafting_[i].token = tokens_[i];
    --drafting_[i].n_left;
  }
  return {};
}

// --- Single parts, for goldens ---

Status DSparkDrafter::StoreKeys(const Batch& batch, Matrix<const Bf16> features) {
  const Result<Step> step = model_.MakeStep(Pass::kMain, batch.View());
  if (!step) return Unexpected(step.error());
  Check(features.rows == step->a.draft_input.rows && features.cols == step->a.draft_input.cols,
        "features [t, targets * hidden]");
  step->backend.Upload(step->a.draft_input.data, AsBytes(features));
  AppendKeys(*step);
  return step->backend.Synchronize();
}

Status DSparkDrafter::RunStage(std::int64_t stage, const Batch& blocks, Matrix<Bf16> streams) {
  Result<Step> step = model_.MakeStep(Pass::kDraft, blocks.View());
  if (!step) return Unexpected(step.error());
  step->is_draft_block = true;
  Check(streams.rows == step->a.draft_streams.rows && streams.cols == step->a.draft_streams.cols,
        "streams [t, 4 * hidden]");
  step->backend.Upload(step->a.draft_streams.data, AsBytes(Matrix<const Bf16>(streams)));
  const BlockWeights& block = weights().blocks[static_cast<std::size_t>(stage)];
  if (Status ran = RunBlock(*step, block, model_.BlockCache(block.index), step->a.draft_streams);
      !ran) {
    return ran;
  }
  step->backend.Download(AsBytes(streams), step->a.draft_streams.data);
  return step->backend.Synchronize();
}

}  // namespace fathom::model
