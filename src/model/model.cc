#include "model/model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kv_cache/random_fill.h"
#include "kv_cache/sequence_cache.h"
#include "model/block.h"
#include "model/cache_shape.h"
#include "model/head_choice.h"
#include "model/load_weights.h"
#include "model/model_limits.h"
#include "model/rope_tables.h"
#include "model/token_position.h"
#include "model/weight_pieces.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom {
namespace {

// The first n rows of a scratch matrix.
template <class T>
Matrix<T> First(Matrix<T> scratch, std::int64_t n) {
  return scratch.Rows(0, n);
}

}  // namespace

struct Model::Impl {
  Backend& backend;
  ModelOptions options;
  ModelConfig config;
  Checkpoint checkpoint;  // without files when all weights have moved to memory
  ModelParts parts;
  DraftHead head;
  std::vector<std::string> warnings;
  ModelWeights weights;
  std::optional<SequenceCache> cache;
  std::optional<Workspace> workspace;
  std::optional<RopeTables> rope;
  RoutingObserver routing_observer;
  // The last Forward and the last ForwardMtp: rows of this process, positions of all rows.
  LocalRows main_rows, draft_rows;
  std::vector<TokenPosition> main_positions, draft_positions;
  std::vector<PieceCopy> copies;         // of one call of CopyPieces
  std::vector<KeptStream> kept_streams;  // of one call of KeepStreams

  Status Allocate();
  const Stage& stage() const { return parts.tensor->stage(); }
  void ResetSequences(const BatchView& batch);
  Status ExtendCache(const BatchView& batch);
  void KeepStreams(const BatchView& batch);
  Matrix<const Bf16> streams() const { return workspace->activations().streams; }
  Matrix<const Bf16> mtp_streams() const { return workspace->activations().mtp_streams; }
  Status CheckStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                      StreamSource source) const;
  const void* StreamsOf(const BatchView& batch, std::int64_t row,
                        std::span<const std::int32_t> stream_rows, StreamSource source) const;
  void CopyStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                   StreamSource source);
  Result<Step> MakeStep(Pass pass, const BatchView& whole);
  // Of a layer of this stage, or of the MTP block.
  LayerCache& CacheOf(std::int64_t layer) {
    return cache->Layer(std::min(layer, stage().end_layer) - stage().first_layer);
  }
  void Finish(const BatchView& whole);
  Status Head(Pass pass, std::span<const std::int32_t> rows, const HcWeights& hc_head,
              std::span<const Bf16> norm, int slot);
};

Status Model::Impl::Allocate() {
  if (Status reserved = backend.Reserve(LimitsOf(config, options)); !reserved) {
    return reserved;
  }
  const Result<CacheShape> shape = parts.tensor->ShardCache(CacheShapeOf(config, options));
  if (!shape) {
    return Unexpected(shape.error());
  }
  Result<SequenceCache> caches = SequenceCache::Create(backend, *shape);
  if (!caches) {
    return Unexpected(caches.error());
  }
  cache = std::move(*caches);
  Result<Workspace> made = Workspace::Create(backend, config,
                                             {.max_tokens = options.max_batch_tokens,
                                              .max_logit_rows = options.max_logit_rows,
                                              .with_mtp = options.with_mtp});
  if (!made) {
    return Unexpected(made.error());
  }
  workspace = std::move(*made);
  parts.tensor->set_logits(workspace->activations().logits);
  Result<RopeTables> tables = RopeTables::Create(backend, config);
  if (!tables) {
    return Unexpected(tables.error());
  }
  rope = *std::move(tables);
  const auto n_copies = static_cast<std::size_t>(options.max_batch_tokens);
  copies.reserve(n_copies);
  kept_streams.reserve(n_copies);
  main_positions.reserve(static_cast<std::size_t>(options.max_batch_tokens));
  draft_positions.reserve(main_positions.capacity());
  return {};
}

Result<std::unique_ptr<Model>> Model::Load(const std::filesystem::path& directory, Backend& backend,
                                           const ModelOptions& options,
                                           const LoadProgress& progress) {
  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  if (!config) {
    return Unexpected(config.error());
  }
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!checkpoint) {
    return Unexpected(checkpoint.error());
  }
  return Load(*std::move(config), *std::move(checkpoint), backend, options, progress);
}

Result<std::unique_ptr<Model>> Model::Load(ModelConfig config, Checkpoint checkpoint,
                                           Backend& backend, const ModelOptions& options,
                                           const LoadProgress& progress) {
  if (Status status = CheckOptions(config, options); !status) {
    return Unexpected(status.error());
  }
  auto impl = std::unique_ptr<Impl>(new Impl{.backend = backend,
                                             .options = options,
                                             .config = std::move(config),
                                             .checkpoint = std::move(checkpoint)});
  const Result<DraftHead> head =
      ChooseHead(impl->checkpoint, impl->config, options.with_mtp, impl->warnings);
  if (!head) {
    return Unexpected(head.error());
  }
  impl->head = *head;
  Result<ModelParts> parts =
      (options.parts ? options.parts : MakeLocalParts)(backend, impl->config, options);
  if (!parts) {
    return Unexpected(parts.error());
  }
  impl->parts = *std::move(parts);
  if (Status loaded = LoadWeights(impl->checkpoint, impl->config, options, impl->parts, progress,
                                  impl->weights, impl->warnings);
      !loaded) {
    return Unexpected(loaded.error());
  }
  if (Status status = impl->Allocate(); !status) {
    return Unexpected(status.error());
  }
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

const ModelConfig& Model::config() const { return impl_->config; }
const ModelOptions& Model::options() const { return impl_->options; }
HeadKind Model::head_kind() const { return impl_->head.kind; }
std::span<const std::string> Model::warnings() const { return impl_->warnings; }
SequenceCache& Model::cache() { return *impl_->cache; }
ExpertStore& Model::expert_store() { return *impl_->parts.store; }
std::int64_t Model::weight_bytes() const { return WeightBytes(impl_->weights); }
std::int64_t Model::resident_weight_bytes() const {
  MemoryPieces memory = impl_->checkpoint.Memory();
  memory.push_back(impl_->weights.memory.bytes());
  return ResidentBytes(memory);
}
std::int64_t Model::cache_bytes() const { return impl_->cache->bytes(); }
std::int64_t Model::workspace_bytes() const {
  return impl_->workspace->bytes() + impl_->parts.tensor->bytes() + impl_->parts.experts->bytes();
}

// Begins the step of a checked batch: this process's rows, trimmed activations, the RoPE rows of
// the positions.
Result<Step> Model::Impl::MakeStep(Pass pass, const BatchView& whole) {
  LocalRows& local = pass == Pass::kMain ? main_rows : draft_rows;
  local = parts.tensor->Localize(pass, whole);
  if (Status begun = backend.BeginStep(local.batch, cache->TakeTableChanges()); !begun) {
    return Unexpected(begun.error());
  }
  parts.tensor->BeginBlocks(local.batch);
  parts.experts->BeginBlocks(pass, whole);
  const Step step = {
      .backend = backend,
      .config = config,
      .batch = local.batch,
      .a = Trim(workspace->activations(), local.batch.n_tokens(), config.num_experts_per_tok),
      .compress_frequencies = rope->compress_frequencies(),
      .routing_observer = routing_observer,
      .tensor = *parts.tensor,
      .store = *parts.store,
      .experts = *parts.experts};
  rope->Fill(local.batch, step.a);
  return step;
}

// After a step that ended halfway: caches of its sequences have been overwritten.
void Model::Impl::ResetSequences(const BatchView& batch) {
  for (const Segment& segment : batch.segments) {
    cache->Release(segment.sequence);
  }
  main_positions.clear();
  draft_positions.clear();
}

// Room for the batch's positions in the caches.
Status Model::Impl::ExtendCache(const BatchView& batch) {
  for (const Segment& segment : batch.segments) {
    if (Status extended = cache->Extend(segment.sequence, segment.first_position, segment.n_tokens);
        !extended) {
      return extended;
    }
  }
  return {};
}

// The streams that the MTP head may be given in later steps: of the newest position of each
// sequence, and of the last of each block.
void Model::Impl::KeepStreams(const BatchView& batch) {
  kept_streams.clear();
  for (const Segment& segment : batch.segments) {
    if (!parts.tensor->IsLocal(segment.sequence)) {
      continue;
    }
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (i + 1 == segment.n_tokens || (position + 1) % kBlockTokens == 0) {
        const std::int64_t row = main_rows.RowOf(segment.first_row + i);
        kept_streams.push_back({segment.sequence, position, streams().Row(row)});
      }
    }
  }
  cache->KeepStreams(kept_streams);
}

Status Model::Prepare(const Batch& batch) {
  const BatchView view = batch.View();
  if (Status status = CheckBatch(view, impl_->config, impl_->options); !status) {
    return status;
  }
  if (Status status = CheckOrder(view, *impl_->cache); !status) {
    return status;
  }
  Status extended = impl_->ExtendCache(view);
  if (!extended) {
    impl_->ResetSequences(view);
  }
  return extended;
}

Status Model::Forward(const Batch& batch) {
  Impl& m = *impl_;
  const BatchView view = batch.View();
  if (Status prepared = Prepare(batch); !prepared) {
    return prepared;
  }
  TensorParallel& tensor = *m.parts.tensor;
  const Result<Step> step = m.MakeStep(Pass::kMain, view);
  Status ran =
      step ? tensor.BeginStreams(step->batch, m.weights.embed, step->a) : Unexpected(step.error());
  for (std::int64_t i = m.stage().first_layer; ran && i < m.stage().end_layer; ++i) {
    ran = RunBlock(*step, m.weights.layers[static_cast<std::size_t>(i)], m.CacheOf(i),
                   step->a.streams);
    ran = ran ? tensor.PollLogits() : ran;
  }
  if (ran) {
    ran = tensor.EndStreams(step->a.streams);
  }
  if (!ran) {
    m.ResetSequences(view);
    return ran;
  }
  m.Finish(view);
  return {};
}

// After a step has run. All ranks keep account of all sequences, so that they agree on what may
// come next and on how much room is left.
void Model::Impl::Finish(const BatchView& whole) {
  for (const Segment& segment : whole.segments) {
    cache->MarkComputed(segment.sequence, segment.first_position + segment.n_tokens);
  }
  if (weights.mtp && stage().is_last) {
    KeepStreams(whole);
  }
  ListPositions(whole, main_positions);
}

// hc_head, norm and LM head of some rows of a pass; starts the logits of a slot.
Status Model::Impl::Head(Pass pass, std::span<const std::int32_t> rows, const HcWeights& hc_head,
                         std::span<const Bf16> norm, int slot) {
  const auto n = static_cast<std::int64_t>(rows.size());
  Check(n <= options.max_logit_rows, "more rows of logits than ModelOptions::max_logit_rows");
  TensorParallel& tensor = *parts.tensor;
  if (!stage().is_last) {
    return tensor.StartLogits(n, slot);
  }
  const bool is_main = pass == Pass::kMain;
  const LocalRows& local = is_main ? main_rows : draft_rows;
  const auto n_rows = std::ssize(is_main ? main_positions : draft_positions);
  const Matrix<const Bf16> from = is_main ? streams() : mtp_streams();
  const Activations& a = workspace->activations();
  copies.clear();
  for (const std::int32_t row : rows) {
    Check(row >= 0 && row < n_rows, "logits of a row that the last step did not have");
    if (const std::int64_t local_row = local.RowOf(row); local_row >= 0) {
      copies.push_back({a.head_streams.Row(std::ssize(copies)), from.Row(local_row),
                        from.cols * static_cast<std::int64_t>(sizeof(Bf16))});
    }
  }
  backend.CopyPieces(copies);
  const std::int64_t n_local = std::ssize(copies);
  const HcOptions hc_options = {.eps = config.hc_eps, .norm_eps = config.rms_norm_eps};
  const Matrix<Bf16> input = First(a.head_input, n_local);
  backend.HcHead(First(a.head_streams, n_local), hc_head, hc_options, input);
  backend.RmsNorm(input, norm, config.rms_norm_eps, input);
  if (Status gathered = tensor.GatherRows(pass, rows, First(a.head_input, n)); !gathered) {
    return gathered;
  }
  backend.Linear(First(a.head_input, n), weights.head, tensor.LocalLogits(n));
  if (Status done = backend.Synchronize(); !done) {
    return done;
  }
  return tensor.StartLogits(n, slot);
}

int Model::most_in_flight() const { return impl_->parts.tensor->most_in_flight(); }

Status Model::StartLogits(std::span<const std::int32_t> rows, int slot) {
  return impl_->Head(Pass::kMain, rows, impl_->weights.hc_head, impl_->weights.norm, slot);
}

Result<Matrix<const float>> Model::FinishLogits(int slot) {
  return impl_->parts.tensor->FinishLogits(slot);
}

Result<Matrix<const float>> Model::Logits(std::span<const std::int32_t> rows) {
  if (Status started = StartLogits(rows, 0); !started) {
    return Unexpected(started.error());
  }
  return FinishLogits(0);
}

// Every row's streams must be those of its position.
Status Model::Impl::CheckStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                                 StreamSource source) const {
  const bool kept = source == StreamSource::kKept;
  const bool again = source == StreamSource::kMtp;
  Check(std::ssize(stream_rows) == (kept ? 0 : batch.n_tokens()),
        "one stream row per token of the MTP batch");
  for (std::int64_t i = 0; i < batch.n_tokens(); ++i) {
    const TokenPosition found = PositionOf(batch, i);
    TokenPosition expected = {found.sequence,
                              static_cast<std::int32_t>(cache->next_position(found.sequence)) - 1};
    std::int32_t row = -1;
    if (!kept) {
      row = stream_rows[static_cast<std::size_t>(i)];
      const std::vector<TokenPosition>& positions = again ? draft_positions : main_positions;
      Check(row >= 0 && row < std::ssize(positions), "an MTP row that the last step did not have");
      expected = positions[static_cast<std::size_t>(row)];
      expected.position += again ? 1 : 0;
    }
    if (expected != found || cache->next_position(found.sequence) == 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "MTP row {}: expected sequence {} position {} (row {} of the last step), "
                       "found sequence {} position {}",
                       i, expected.sequence, expected.position, row, found.sequence,
                       found.position);
    }
  }
  return {};
}

const void* Model::Impl::StreamsOf(const BatchView& batch, std::int64_t row,
                                   std::span<const std::int32_t> stream_rows,
                                   StreamSource source) const {
  if (source == StreamSource::kKept) {
    return cache->Stream(batch.SegmentOf(row).sequence);
  }
  const bool again = source == StreamSource::kMtp;
  const std::int64_t from =
      (again ? draft_rows : main_rows).RowOf(stream_rows[static_cast<std::size_t>(row)]);
  return (again ? mtp_streams() : streams()).Row(from);
}

// Puts the streams of the local rows where the MTP head begins.
void Model::Impl::CopyStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                              StreamSource source) {
  const Matrix<Bf16> to = workspace->activations().mtp_normed;
  copies.clear();
  for (std::int64_t i = 0; i < batch.n_tokens(); ++i) {
    if (parts.tensor->IsLocal(batch.SegmentOf(i).sequence)) {
      copies.push_back({to.Row(std::ssize(copies)), StreamsOf(batch, i, stream_rows, source),
                        to.cols * static_cast<std::int64_t>(sizeof(Bf16))});
    }
  }
  backend.CopyPieces(copies);
}

Status Model::PrepareMtp(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) {
  Impl& m = *impl_;
  const BatchView view = next.View();
  if (!m.weights.mtp) {
    return MakeError(ErrorCode::kInvalidArgument, "the model was loaded without its MTP head");
  }
  if (Status status = CheckBatch(view, m.config, m.options); !status) {
    return status;
  }
  if (Status status = m.CheckStreams(view, stream_rows, source); !status) {
    return status;
  }
  for (const Segment& segment : view.segments) {
    if (source != StreamSource::kKept) {
      break;
    }
    if (Status extended =
            m.cache->Extend(segment.sequence, m.cache->next_position(segment.sequence), 0);
        !extended) {
      return extended;
    }
  }
  return {};
}

Status Model::ForwardMtp(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) {
  if (Status prepared = PrepareMtp(next, stream_rows, source); !prepared) {
    return prepared;
  }
  Impl& m = *impl_;
  const BatchView view = next.View();
  if (!m.stage().is_last) {
    ListPositions(view, m.draft_positions);
    return {};
  }
  const MtpWeights& mtp = *m.weights.mtp;
  m.CopyStreams(view, stream_rows, source);  // by the rows of the last step
  const Result<Step> made = m.MakeStep(Pass::kDraft, view);
  if (!made) {
    m.ResetSequences(view);
    return Unexpected(made.error());
  }
  const Step& step = *made;
  const Activations& a = step.a;
  const std::int64_t n = step.batch.n_tokens();
  const std::int64_t d = m.config.hidden_size;
  const float eps = m.config.rms_norm_eps;
  // The norm and h_proj work on every stream alone: [t, 4 d] seen as [4 t, d].
  const Matrix<Bf16> normed = {a.mtp_normed.data, n * kStreams, d};
  const Matrix<Bf16> projected = {a.mtp_streams.data, n * kStreams, d};
  m.backend.RmsNorm(normed, mtp.hnorm, eps, normed);
  m.backend.Linear(normed, mtp.h_proj, projected);
  if (Status status = step.tensor.Embed(step.batch, m.weights.embed, a, a.u); !status) {
    return status;
  }
  m.backend.RmsNorm(a.u, mtp.enorm, eps, a.u);
  m.backend.Linear(a.u, mtp.e_proj, a.y);
  m.backend.AddToStreams(a.y, a.mtp_streams);
  if (Status ran = RunBlock(step, mtp.block, m.CacheOf(m.config.num_hidden_layers), a.mtp_streams);
      !ran) {
    m.ResetSequences(view);
    return ran;
  }
  ListPositions(view, m.draft_positions);
  return {};
}

Result<Matrix<const float>> Model::MtpLogits(std::span<const std::int32_t> rows) {
  Impl& m = *impl_;
  Check(m.weights.mtp.has_value(), "MTP logits of a model loaded without its MTP head");
  if (Status ran = m.Head(Pass::kDraft, rows, m.weights.mtp->hc_head, m.weights.mtp->norm, 0);
      !ran) {
    return Unexpected(ran.error());
  }
  return FinishLogits(0);
}

Status Model::FillCache(std::int32_t sequence, std::int64_t n_tokens, std::uint64_t seed) {
  Impl& m = *impl_;
  if (sequence < 0 || sequence >= m.options.max_sequences) {
    return MakeError(ErrorCode::kInvalidArgument, "sequence: expected 0 to {}, found {}",
                     m.options.max_sequences - 1, sequence);
  }
  if (n_tokens < 1 || n_tokens > m.options.max_context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "sequence {}: expected 1 to {} tokens (the context), found {}", sequence,
                     m.options.max_context, n_tokens);
  }
  if (Status extended = m.cache->Extend(sequence, 0, n_tokens); !extended) {
    return extended;
  }
  FillRandomly(*m.cache, sequence, n_tokens, seed);
  m.cache->MarkComputed(sequence, n_tokens);
  return {};
}

void Model::ObserveRouting(RoutingObserver observer) {
  impl_->routing_observer = std::move(observer);
}

Status Model::RunLayer(std::int64_t layer, const Batch& batch, Matrix<Bf16> streams) {
  Impl& m = *impl_;
  const BatchView view = batch.View();
  Check(layer >= m.stage().first_layer && layer < m.stage().end_layer, "a layer of this process");
  Check(streams.rows == view.n_tokens() && streams.cols == kStreams * m.config.hidden_size,
        "streams [t, 4 * hidden]");
  if (Status status = CheckBatch(view, m.config, m.options); !status) {
    return status;
  }
  if (Status status = CheckOrder(view, *m.cache); !status) {
    return status;
  }
  if (Status extended = m.ExtendCache(view); !extended) {
    return extended;
  }
  const Result<Step> step = m.MakeStep(Pass::kMain, view);
  if (!step) {
    return Unexpected(step.error());
  }
  m.backend.Upload(step->a.streams.data, BytesOf(streams));
  if (Status ran = RunBlock(*step, m.weights.layers[static_cast<std::size_t>(layer)],
                            m.CacheOf(layer), step->a.streams);
      !ran) {
    return ran;
  }
  m.backend.Download(BytesOf(streams), step->a.streams.data);
  return m.backend.Synchronize();
}

}  // namespace fathom
