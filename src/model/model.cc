#include "model/model.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/pages.h"
#include "base/thread_team.h"
#include "kv_cache/random_fill.h"
#include "kv_cache/sequence_cache.h"
#include "model/block.h"
#include "model/block_read_ahead.h"
#include "model/cache_shape.h"
#include "model/expert_exchange.h"
#include "model/head_choice.h"
#include "model/local_batch.h"
#include "model/logit_gather.h"
#include "model/model_limits.h"
#include "model/rank_exchange.h"
#include "model/rope_tables.h"
#include "model/token_position.h"
#include "model/weight_pieces.h"
#include "model/weight_share.h"
#include "model/weight_values.h"
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
  ModelRanks ranks;
  DraftHead head;
  std::vector<std::string> warnings;
  ModelWeights weights;
  std::optional<SequenceCache> cache;
  std::optional<Workspace> workspace;
  std::optional<LogitGather> logits;
  std::optional<PlacedExperts> experts;
  std::unique_ptr<ExpertExchange> exchange;  // null: this rank has all experts
  std::optional<IndexPartition> index_cut;
  std::optional<RowGather> row_gather;
  // What this data rank has of the last Forward and of the last ForwardMtp.
  std::optional<LocalBatch> own_batch;
  std::optional<LocalBatch> own_mtp_batch;
  BlockReadAhead read_ahead;
  std::optional<RopeTables> rope;
  RoutingObserver routing_observer;
  std::int64_t last_rows = 0;                 // of the last Forward
  std::vector<TokenPosition> last_positions;  // of each of them
  std::int64_t last_mtp_rows = 0;             // of the last ForwardMtp
  std::vector<TokenPosition> last_mtp_positions;

  Status Bind();
  Status CheckAndHold(const LoadProgress& progress);
  Status Allocate();
  void ResetSequences(const BatchView& batch);
  Status ExtendCache(const BatchView& batch);
  void KeepStreams(const BatchView& batch);
  Matrix<const Bf16> streams() const { return workspace->activations().streams; }
  Matrix<const Bf16> mtp_streams() const { return workspace->activations().mtp_streams; }
  Status CheckStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                      StreamSource source) const;
  std::span<const std::byte> StreamsOf(const BatchView& batch, std::int64_t row,
                                       std::span<const std::int32_t> stream_rows,
                                       StreamSource source) const;
  void CopyStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                   StreamSource source);
  BatchView TakeOwn(LocalBatch& own, const BatchView& whole);
  Step MakeStep(const BatchView& batch, const LocalBatch& own);
  // Of a layer of this stage, or of the MTP block.
  LayerCache& CacheOf(std::int64_t layer) {
    return cache->Layer(std::min(layer, ranks.share.end_layer) - ranks.share.first_layer);
  }
  void Finish(const BatchView& whole, const BatchView& batch);
  void FinishMtp(const BatchView& whole) {
    last_mtp_rows = whole.n_tokens();
    ListPositions(whole, last_mtp_positions);
  }
  Status Head(Matrix<const Bf16> streams, const LocalBatch& own, std::span<const std::int32_t> rows,
              const HcWeights& hc_head, std::span<const Bf16> norm, int place);
};

Status Model::Impl::Bind() {
  WeightBinder binder(checkpoint);
  weights = BindWeights(checkpoint, config, options.with_mtp, binder);
  Status bound = binder.Finish();
  if (bound) {
    TakeShare(weights, config, ranks.share, experts->maps());
  }
  return bound;
}

// Checks the values of the weights, and brings them to where they are wanted. Their names and
// shapes have been found right before anything is read.
Status Model::Impl::CheckAndHold(const LoadProgress& load_progress) {
  ThreadTeam team(options.n_load_threads);
  MemoryPieces pieces = WeightPieces(weights);
  if (Status room = CheckRoom(checkpoint, pieces, options.weights); !room) {
    return room;
  }
  UnmapUnusedPages(checkpoint, pieces);
  if (Status valid = CheckWeightValues(checkpoint, config, WeightValues::kOutsideExperts, team,
                                       ranks.share.is_whole() ? nullptr : &pieces);
      !valid) {
    return valid;
  }
  Result<PageMemory> memory = HoldWeights(pieces, options.weights, team, load_progress, warnings);
  if (!memory) {
    return Unexpected(memory.error());
  }
  if (options.weights.huge_pages) {
    MoveWeights(weights, pieces, *std::move(memory));
    checkpoint = Checkpoint();
  }
  if (!options.weights.Any()) {
    read_ahead = BlockReadAhead(checkpoint, config.num_hidden_layers);
  }
  return {};
}

Status Model::Impl::Allocate() {
  if (Status reserved = backend.Reserve(LimitsOf(config, options)); !reserved) {
    return reserved;
  }
  const Result<CacheShape> shape = AgreedCacheShape(config, options);
  if (!shape) {
    return Unexpected(shape.error());
  }
  Result<SequenceCache> caches = SequenceCache::Create(backend, *shape);
  if (!caches) {
    return Unexpected(caches.error());
  }
  cache = std::move(*caches);
  Result<Workspace> made = Workspace::Create(
      backend, config,
      {.max_tokens = options.max_batch_tokens,
       .max_logit_rows = options.max_logit_rows,
       .with_mtp = options.with_mtp,
       .n_tensor = ranks.share.n_tensor,
       .n_data = ranks.share.n_data,
       .n_stages = ranks.share.n_stages,
       .n_gathered_rows = GatheredRows(config, ranks.share, options.max_batch_tokens),
       .n_logit_places = MostLogitPlaces(ranks.share)});
  if (!made) {
    return Unexpected(made.error());
  }
  workspace = std::move(*made);
  logits.emplace(ranks, workspace->activations());
  index_cut.emplace(config, ranks.share, options.max_batch_tokens);
  row_gather.emplace(config, ranks.share, options.max_batch_tokens, options.max_context);
  rope.emplace(config);
  last_positions.reserve(static_cast<std::size_t>(options.max_batch_tokens));
  last_mtp_positions.reserve(last_positions.capacity());
  own_batch.emplace(options.max_batch_tokens, options.max_sequences, ranks.share.n_data);
  own_mtp_batch = own_batch;
  Result<std::unique_ptr<ExpertExchange>> made_exchange =
      MakeExpertExchange(backend, ranks, config, options.max_batch_tokens);
  if (!made_exchange) {
    return Unexpected(made_exchange.error());
  }
  exchange = std::move(*made_exchange);
  return experts->Bind(backend, weights, options.weights.lock);
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
  impl->ranks = options.ranks != nullptr ? *options.ranks : ModelRanks{WholeModel(impl->config)};
  impl->experts.emplace(impl->config, impl->ranks, options.experts);
  const Result<DraftHead> head =
      ChooseHead(impl->checkpoint, impl->config, options.with_mtp, impl->warnings);
  if (!head) {
    return Unexpected(head.error());
  }
  impl->head = *head;
  if (Status status = impl->Bind(); !status) {
    return Unexpected(status.error());
  }
  if (Status status = impl->CheckAndHold(progress); !status) {
    return Unexpected(status.error());
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
PlacedExperts& Model::experts() { return *impl_->experts; }
std::int64_t Model::weight_bytes() const { return WeightBytes(impl_->weights); }
std::int64_t Model::resident_weight_bytes() const {
  MemoryPieces memory = impl_->checkpoint.Memory();
  memory.push_back(impl_->weights.memory.bytes());
  return ResidentBytes(memory);
}
std::int64_t Model::cache_bytes() const { return impl_->cache->bytes(); }
std::int64_t Model::workspace_bytes() const {
  return impl_->workspace->bytes() + (impl_->exchange ? impl_->exchange->bytes() : 0);
}

// What this rank computes of a checked batch.
BatchView Model::Impl::TakeOwn(LocalBatch& own, const BatchView& whole) {
  if (ranks.share.n_data == 1) {
    return whole;
  }
  own.Take(whole, ranks.share);
  return own.View();
}

// The step of a checked batch: trimmed activations and the RoPE rows of its positions.
Step Model::Impl::MakeStep(const BatchView& batch, const LocalBatch& own) {
  index_cut->Take(batch.positions);
  const Step step = {
      .backend = backend,
      .config = config,
      .batch = batch,
      .a = Trim(workspace->activations(), batch.n_tokens(), config.num_experts_per_tok),
      .compress_frequencies = rope->compress_frequencies(),
      .routing_observer = routing_observer,
      .admission = experts->admission(),
      .experts = *experts,
      .ranks = ranks,
      .index_cut = *index_cut,
      .row_gather = *row_gather,
      .exchange = exchange.get(),
      .tokens_of_rank = own.tokens_of_rank()};
  rope->Fill(batch.positions, step.a);
  return step;
}

// After a step that ended halfway: caches of its sequences have been overwritten.
void Model::Impl::ResetSequences(const BatchView& batch) {
  for (const Segment& segment : batch.segments) {
    cache->Release(segment.sequence);
  }
  last_rows = 0;
  last_mtp_rows = 0;
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
  const Matrix<Bf16> streams = workspace->activations().streams;
  for (const Segment& segment : batch.segments) {
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (i + 1 == segment.n_tokens || (position + 1) % kBlockTokens == 0) {
        cache->KeepStream(ranks.share.data().SequenceIn(segment.sequence), position,
                          std::as_bytes(streams.RowSpan(segment.first_row + i)));
      }
    }
  }
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
  m.experts->BeginStep();
  const BatchView own = m.TakeOwn(*m.own_batch, view);
  const Step step = m.MakeStep(own, *m.own_batch);
  const ModelShard& share = m.ranks.share;
  m.read_ahead.Ask(share.first_layer);
  Status ran = BeginStreams(m.backend, m.ranks, own, m.weights.embed, step.a);
  for (std::int64_t i = share.first_layer; ran && i < share.end_layer; ++i) {
    if (i + 1 < share.end_layer) {
      m.read_ahead.Ask(i + 1);
    }
    ran =
        RunBlock(step, m.weights.layers[static_cast<std::size_t>(i)], m.CacheOf(i), step.a.streams);
    ran = ran ? m.logits->Poll() : ran;
  }
  if (ran) {
    m.backend.Synchronize();
    ran = SendStreams(m.ranks, step.a.streams);
  }
  if (!ran) {
    m.ResetSequences(view);
    return ran;
  }
  m.Finish(view, own);
  return {};
}

// The step has run: of the whole batch this rank has computed `batch`. All ranks keep account of
// all sequences, so that they agree on what may come next and on how much room is left.
void Model::Impl::Finish(const BatchView& whole, const BatchView& batch) {
  for (const Segment& segment : whole.segments) {
    cache->MarkComputed(segment.sequence, segment.first_position + segment.n_tokens);
  }
  if (weights.mtp && ranks.share.is_last_stage()) {
    backend.Synchronize();
    KeepStreams(batch);
  }
  last_rows = whole.n_tokens();
  ListPositions(whole, last_positions);
}

// hc_head, norm and LM head of some rows; their logits set off for rank 0.
Status Model::Impl::Head(Matrix<const Bf16> streams, const LocalBatch& own,
                         std::span<const std::int32_t> rows, const HcWeights& hc_head,
                         std::span<const Bf16> norm, int place) {
  const auto n = static_cast<std::int64_t>(rows.size());
  Check(n <= options.max_logit_rows, "more rows of logits than ModelOptions::max_logit_rows");
  const Activations& a = workspace->activations();
  if (!ranks.share.is_last_stage()) {
    return logits->Start(n, place);
  }
  const bool has_all = ranks.share.n_data == 1;
  const auto owner = [&](std::int64_t i) { return own.OwnerOf(rows[static_cast<std::size_t>(i)]); };
  std::int64_t n_own = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t row = rows[static_cast<std::size_t>(i)];
    Check(row >= 0 && row < streams.rows, "logits of a row that the last step did not have");
    if (has_all || owner(i) == ranks.share.data_rank) {
      std::memcpy(a.head_streams.Row(n_own++), streams.Row(has_all ? row : own.RowOf(row)),
                  static_cast<std::size_t>(streams.cols) * sizeof(Bf16));
    }
  }
  const HcOptions hc_options = {.eps = config.hc_eps, .norm_eps = config.rms_norm_eps};
  const Matrix<Bf16> input = First(a.head_input, n_own);
  backend.HcHead(First(a.head_streams, n_own), hc_head, hc_options, input);
  backend.RmsNorm(input, norm, config.rms_norm_eps, input);
  if (!has_all) {
    backend.Synchronize();
    if (Status shared = ShareOwnRows(ranks, owner, a, First(a.head_input, n)); !shared) {
      return shared;
    }
  }
  backend.Linear(First(a.head_input, n), weights.head, logits->Share(n));
  backend.Synchronize();
  return logits->Start(n, place);
}

int Model::most_in_flight() const { return MostLogitPlaces(impl_->ranks.share); }

Status Model::StartLogits(std::span<const std::int32_t> rows, int place) {
  Impl& m = *impl_;
  return m.Head(First(m.streams(), m.last_rows), *m.own_batch, rows, m.weights.hc_head,
                m.weights.norm, place);
}

Result<Matrix<const float>> Model::FinishLogits(int place) { return impl_->logits->Finish(place); }

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
      Check(row >= 0 && row < (again ? last_mtp_rows : last_rows),
            "an MTP row that the last step did not have");
      expected = (again ? last_mtp_positions : last_positions)[static_cast<std::size_t>(row)];
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

std::span<const std::byte> Model::Impl::StreamsOf(const BatchView& batch, std::int64_t row,
                                                  std::span<const std::int32_t> stream_rows,
                                                  StreamSource source) const {
  if (source == StreamSource::kKept) {
    return cache->Stream(batch.SegmentOf(row).sequence);
  }
  const bool again = source == StreamSource::kMtp;
  std::int64_t from = stream_rows[static_cast<std::size_t>(row)];
  if (ranks.share.n_data > 1) {
    from = (again ? own_mtp_batch : own_batch)->RowOf(from);
  }
  return std::as_bytes((again ? mtp_streams() : streams()).RowSpan(from));
}

// Puts the streams of this rank's rows where the MTP head begins.
void Model::Impl::CopyStreams(const BatchView& batch, std::span<const std::int32_t> stream_rows,
                              StreamSource source) {
  std::int64_t n_own = 0;
  for (std::int64_t i = 0; i < batch.n_tokens(); ++i) {
    if (ranks.share.data().IsOwn(batch.SegmentOf(i).sequence)) {
      const std::span<const std::byte> streams = StreamsOf(batch, i, stream_rows, source);
      std::memcpy(workspace->activations().mtp_normed.Row(n_own++), streams.data(), streams.size());
    }
  }
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
  if (!m.ranks.share.is_last_stage()) {
    m.FinishMtp(view);
    return {};
  }
  const MtpWeights& mtp = *m.weights.mtp;
  m.CopyStreams(view, stream_rows, source);  // by the rows of the last step
  const BatchView own = m.TakeOwn(*m.own_mtp_batch, view);
  const Step step = m.MakeStep(own, *m.own_mtp_batch);
  const Activations& a = step.a;
  const std::int64_t n = own.n_tokens();
  const std::int64_t d = m.config.hidden_size;
  const float eps = m.config.rms_norm_eps;
  // The norm and h_proj work on every stream alone: [t, 4 d] seen as [4 t, d].
  const Matrix<Bf16> normed = {a.mtp_normed.data, n * kStreams, d};
  const Matrix<Bf16> projected = {a.mtp_streams.data, n * kStreams, d};
  m.backend.RmsNorm(normed, mtp.hnorm, eps, normed);
  m.backend.Linear(normed, mtp.h_proj, projected);
  if (Status status = EmbedTokens(m.backend, m.ranks, own, m.weights.embed, a, a.u); !status) {
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
  m.FinishMtp(view);
  return {};
}

Result<Matrix<const float>> Model::MtpLogits(std::span<const std::int32_t> rows) {
  Impl& m = *impl_;
  Check(m.weights.mtp.has_value(), "MTP logits of a model loaded without its MTP head");
  if (Status ran = m.Head(First(m.mtp_streams(), m.last_mtp_rows), *m.own_mtp_batch, rows,
                          m.weights.mtp->hc_head, m.weights.mtp->norm, 0);
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
  const ModelShard& share = m.ranks.share;
  Check(layer >= share.first_layer && layer < share.end_layer && share.n_data == 1,
        "a layer that this rank has, for all tokens");
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
  const Status ran =
      RunBlock(m.MakeStep(view, *m.own_batch), m.weights.layers[static_cast<std::size_t>(layer)],
               m.CacheOf(layer), streams);
  m.backend.Synchronize();
  return ran;
}

}  // namespace fathom
