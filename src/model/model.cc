#include "model/model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "checkpoint/expert_formats.h"
#include "kv_cache/random_fill.h"
#include "model/block.h"
#include "model/draft/drafters.h"
#include "model/load_weights.h"
#include "model/model_limits.h"
#include "model/model_state.h"
#include "model/weight_pieces.h"

namespace fathom::model {

struct Model::Impl : ModelState {
  std::unique_ptr<Drafter> drafter;  // null: loaded without one
  DraftCosts draft_costs;

  // True between BeginPass and the end of its pass: other calls refer to passes in its pauses.
  bool IsPaused() const { return main == &short_pass; }
  Result<Step> StartMainPass(const BatchView& whole);
  Status RunNextLayer(const Step& step);
  Status EndMainPass(const Step& step, Status ran, std::vector<SequenceFailure>& failed);
  PassProgress Progress() const;
  Result<PassProgress> ContinuePass(std::vector<SequenceFailure>& failed);
  void StopPass();
  void Finish(ForwardPass& pass);
  HeadWeights head_weights() const { return {.hc = weights.hc_head, .norm = weights.norm}; }
};

namespace {

// The last stage has the drafter, and must have all layers that the drafter reads.
Status CheckDraftStage(const ModelState& model) {
  if (model.drafter_kind == nullptr || !model.stage().is_last) return {};
  const std::int64_t first = model.drafter_kind->first_layer(model.config);
  if (first >= model.stage().first_layer) return {};
  return MakeError(ErrorCode::kUnsupported,
                   "drafts: expected layer {} and those behind it, which the {} drafter reads, in "
                   "the last pipeline stage; found layers {} to {} there",
                   first, model.drafter_kind->name, model.stage().first_layer,
                   model.stage().end_layer - 1);
}

// All ranks must run a layer of a pass in pieces at the same time.
Status CheckPauses(const ModelState& model) {
  if (model.options.pause_tokens == 0 || (model.stage().is_first && model.stage().is_last)) {
    return {};
  }
  return MakeError(ErrorCode::kUnsupported,
                   "passes in pieces: expected all layers on each rank, found layers {} to {}",
                   model.stage().first_layer, model.stage().end_layer - 1);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const std::filesystem::path& directory, Backend& backend,
                                           const ModelOptions& options,
                                           const LoadProgress& progress) {
  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  return Load(*std::move(config), *std::move(checkpoint), backend, options, progress);
}

Result<std::unique_ptr<Model>> Model::Load(ModelConfig config, Checkpoint checkpoint,
                                           Backend& backend, const ModelOptions& options,
                                           const LoadProgress& progress) {
  if (Status status = CheckOptions(config, options); !status) return Unexpected(status.error());
  auto impl = std::unique_ptr<Impl>(new Impl{{.backend = backend,
                                              .options = options,
                                              .config = std::move(config),
                                              .checkpoint = std::move(checkpoint)}});
  const Result<DraftHead> head = AdoptDraftHead(impl->checkpoint, impl->config);
  if (!head) return Unexpected(head.error());
  if (options.with_draft && head->kind == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "{}: expected {}, found no draft head",
                     impl->checkpoint.path().string(), DescribeDraftHeads());
  }
  impl->drafter_kind = options.with_draft ? head->kind : nullptr;
  if (auto warning = ExpertFormatWarning(impl->config, FindExpertFormats(impl->checkpoint))) {
    impl->warnings.push_back(*std::move(warning));
  }
  if (impl->drafter_kind != nullptr) {  // a pass has room for a block of drafts
    const std::int64_t block = impl->drafter_kind->sizes(impl->config).max_block;
    ModelOptions& sizes = impl->options;
    sizes.max_batch_tokens = std::max(sizes.max_batch_tokens, block);
    if (sizes.pause_tokens > 0) sizes.pause_tokens = std::max(sizes.pause_tokens, block);
  }
  Result<ModelParts> parts =
      (options.parts ? options.parts : MakeLocalParts)(backend, impl->config, impl->options);
  if (!parts) return Unexpected(parts.error());
  impl->parts = *std::move(parts);
  if (Status possible = CheckPauses(*impl); !possible) return Unexpected(possible.error());
  if (Status has = CheckDraftStage(*impl); !has) return Unexpected(has.error());
  if (Status loaded = LoadWeights(*impl, progress); !loaded) return Unexpected(loaded.error());
  if (Status status = impl->Allocate(); !status) return Unexpected(status.error());
  if (impl->drafter_kind != nullptr) {
    impl->drafter = impl->drafter_kind->make(*impl);
  }
  impl->draft_costs = ComputeDraftCosts(impl->weights, impl->config, impl->drafter_kind);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

ModelLimits Model::Limits() const {
  const ModelState& m = *impl_;
  return {.vocab_size = m.config.vocab_size,
          .max_sequences = m.options.max_sequences,
          .max_context = m.options.max_context,
          .max_batch_tokens = m.options.max_batch_tokens,
          .max_logit_rows = m.options.max_logit_rows,
          .rollback_tokens = kRollbackTokens,
          .max_draft_depth = impl_->drafter == nullptr ? 0 : impl_->drafter->max_depth(),
          .draft_costs = impl_->draft_costs,
          .most_in_flight = most_in_flight(),
          .pause_tokens = m.options.pause_tokens};
}

const ModelConfig& Model::config() const { return impl_->config; }
const ModelOptions& Model::options() const { return impl_->options; }
std::span<const std::string> Model::warnings() const { return impl_->warnings; }
SequenceCache& Model::cache() { return *impl_->cache; }
Drafter* Model::drafter() { return impl_->drafter.get(); }
void Model::SetExpertTime(double times) { impl_->draft_costs.expert *= times; }
Status Model::CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                              StreamSource source) {
  return impl_->drafter->Commit(next, stream_rows, source);
}
Status Model::ProposeDrafts(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                            const ChooseDrafts& choose) {
  return impl_->drafter->Propose(requests, describe, choose);
}
std::optional<StreamingCounts> Model::Streaming() const { return impl_->parts.store->streaming(); }
ExpertStore& Model::expert_store() { return *impl_->parts.store; }
const MemoryPlan* Model::memory_plan() const {
  return impl_->memory_plan ? &*impl_->memory_plan : nullptr;
}
std::int64_t Model::weight_bytes() const { return WeightBytes(impl_->weights); }
std::int64_t Model::resident_weight_bytes() const {
  MemoryPieces memory = impl_->checkpoint.Memory();
  memory.push_back(impl_->weights.memory.bytes());
  return ResidentBytes(memory);
}
std::int64_t Model::cache_bytes() const { return impl_->cache->bytes(); }
std::int64_t Model::workspace_bytes() const {
  const ModelState& m = *impl_;
  return m.long_pass.workspace->bytes() +
         (m.short_pass.workspace ? m.short_pass.workspace->bytes() : 0) + m.parts.tensor->bytes() +
         m.parts.experts->bytes();
}

Status Model::Prepare(const Batch& batch) {
  const BatchView view = batch.View();
  if (Status status = impl_->CheckBatch(view); !status) return status;
  if (Status status = CheckOrder(view, *impl_->cache); !status) return status;
  Status extended = impl_->ExtendCache(view);
  if (!extended) {
    impl_->ResetSequences(view.segments);
  }
  return extended;
}

Status Model::Forward(const Batch& batch) {
  std::vector<SequenceFailure> failed;
  Status ran = Forward(batch, failed);
  if (!ran || failed.empty()) return ran;
  impl_->ResetSequences(batch.View().segments);
  return Unexpected(std::move(failed.front().error));
}

Status Model::Forward(const Batch& batch, std::vector<SequenceFailure>& failed) {
  failed.clear();
  if (Status prepared = Prepare(batch); !prepared) return prepared;
  Impl& m = *impl_;
  const Result<Step> step = m.StartMainPass(batch.View());
  if (!step) return Unexpected(step.error());
  Status ran;
  while (ran && !m.Progress().HasEnded()) ran = m.RunNextLayer(*step);
  return m.EndMainPass(*step, ran, failed);
}

// The pass of BeginPass.
class Model::LongPass final : public LayeredPass {
 public:
  explicit LongPass(Impl& model) : model_(model) {}
  ~LongPass() override {
    if (!has_ended_) model_.StopPass();
  }
  Result<PassProgress> Continue(std::vector<SequenceFailure>& failed) override {
    Check(!has_ended_, "a pass that has not ended");
    Result<PassProgress> progress = model_.ContinuePass(failed);
    has_ended_ = !progress || progress->HasEnded();
    return progress;
  }

 private:
  Impl& model_;
  bool has_ended_ = false;
};

Result<std::unique_ptr<LayeredPass>> Model::BeginPass(const Batch& batch, ShouldStop should_stop) {
  Impl& m = *impl_;
  Check(m.options.pause_tokens > 0 && !m.IsPaused(), "a pass in pieces beside another");
  if (Status prepared = Prepare(batch); !prepared) return Unexpected(prepared.error());
  if (const Result<Step> step = m.StartMainPass(batch.View()); !step) {
    return Unexpected(step.error());
  }
  m.long_pass.should_stop = std::move(should_stop);
  m.main = &m.short_pass;
  return std::make_unique<LongPass>(m);
}

Result<PassProgress> Model::Impl::ContinuePass(std::vector<SequenceFailure>& failed) {
  failed.clear();
  main = &long_pass;
  const Step step = StepOf(long_pass);
  Status ran = backend.BeginStep(step.batch, cache->TakeTableChanges());
  if (ran) ran = RunNextLayer(step);
  const PassProgress progress = Progress();
  if (ran && !progress.HasEnded()) {
    if (layer_observer) layer_observer(std::nullopt);
    main = &short_pass;
    return progress;
  }
  if (Status done = EndMainPass(step, ran, failed); !done) return Unexpected(done.error());
  return progress;
}

void Model::Impl::StopPass() {
  main = &long_pass;
  ResetSequences(long_pass.whole.segments);
}

PassProgress Model::Impl::Progress() const {
  return {.layers_done = main->next_layer - stage().first_layer,
          .layers = stage().end_layer - stage().first_layer};
}

Result<Step> Model::Impl::StartMainPass(const BatchView& whole) {
  Result<Step> step = MakeStep(Pass::kMain, whole);
  Status begun = step ? parts.tensor->BeginStreams(step->batch, weights.embed, step->a)
                      : Unexpected(step.error());
  if (!begun) {
    ResetSequences(whole.segments);
    return Unexpected(begun.error());
  }
  main->next_layer = stage().first_layer;
  return step;
}

Status Model::Impl::RunNextLayer(const Step& step) {
  const std::int64_t layer = step.pass.next_layer++;
  if (layer_observer) layer_observer(layer);
  const BlockWeights& block = weights.layers[static_cast<std::size_t>(layer)];
  const BlockWeights* next = layer + 1 < stage().end_layer ? &block + 1 : nullptr;
  if (Status ran = RunBlock(step, block, BlockCache(layer), step.a.streams, next); !ran) {
    return ran;
  }
  if (drafter != nullptr) drafter->Tap(layer, step.pass.whole, step);
  return parts.tensor->PollLogits();
}

// `ran`: the result of its layers.
Status Model::Impl::EndMainPass(const Step& step, Status ran,
                                std::vector<SequenceFailure>& failed) {
  if (layer_observer) layer_observer(std::nullopt);
  if (ran) ran = parts.tensor->EndStreams(step.a.streams);
  if (ran) ran = parts.experts->ShareFailures(step.pass);
  if (!ran) {
    ResetSequences(step.pass.whole.segments);
    return ran;
  }
  Finish(step.pass);
  for (const SequenceFailure& failure : step.pass.failed.failures()) {
    ForgetSequence(failure.sequence);
    failed.push_back(failure);
  }
  return {};
}

// Called after a step has run. All ranks track all sequences, so that they agree on which positions
// may follow and on how much room is left.
void Model::Impl::Finish(ForwardPass& pass) {
  for (const Segment& segment : pass.whole.segments) {
    cache->MarkComputed(segment.sequence, segment.first_position + segment.n_tokens);
  }
  ListPositions(pass.whole, pass.positions);
}

int Model::most_in_flight() const { return impl_->parts.tensor->most_in_flight(); }

Status Model::StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int slot) {
  Impl& m = *impl_;
  // Operations of the step may report errors only now, after its positions have been counted.
  Status started = m.StartTokens(Pass::kMain, m.activations().streams, rows, m.head_weights(),
                                 std::move(describe), slot);
  if (!started) m.ResetSequences(m.main->positions);
  return started;
}

Result<ChosenTokens> Model::FinishTokens(int slot) {
  Result<ChosenTokens> found = impl_->tokens->Finish(slot);
  if (!found) impl_->ResetSequences(impl_->main->positions);
  return found;
}

Result<Matrix<const float>> Model::Logits(std::span<const std::int32_t> rows) {
  if (Status started = StartTokens(rows, {}, 0); !started) return Unexpected(started.error());
  const Result<ChosenTokens> found = FinishTokens(0);
  if (!found) return Unexpected(found.error());
  return found->logits;
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
  if (Status extended = m.cache->Extend(sequence, 0, n_tokens); !extended) return extended;
  FillRandomly(*m.cache, sequence, n_tokens, seed);
  m.cache->MarkComputed(sequence, n_tokens);
  return {};
}

void Model::ObserveRouting(RoutingObserver observer) {
  impl_->routing_observer = std::move(observer);
}

void Model::ObserveLayers(LayerObserver observer) { impl_->layer_observer = std::move(observer); }

Status Model::RunLayer(std::int64_t layer, const Batch& batch, Matrix<Bf16> streams) {
  Impl& m = *impl_;
  const BatchView view = batch.View();
  Check(layer >= m.stage().first_layer && layer < m.stage().end_layer, "a layer of this process");
  Check(streams.rows == view.n_tokens() && streams.cols == kStreams * m.config.hidden_size,
        "streams [t, 4 * hidden]");
  if (Status status = m.CheckBatch(view); !status) return status;
  if (Status status = CheckOrder(view, *m.cache); !status) return status;
  if (Status extended = m.ExtendCache(view); !extended) return extended;
  const Result<Step> step = m.MakeStep(Pass::kMain, view);
  if (!step) return Unexpected(step.error());
  m.backend.Upload(step->a.streams.data, AsBytes(streams));
  if (Status ran = RunBlock(*step, m.weights.layers[static_cast<std::size_t>(layer)],
                            m.BlockCache(layer), step->a.streams);
      !ran) {
    return ran;
  }
  m.backend.Download(AsBytes(streams), step->a.streams.data);
  return m.backend.Synchronize();
}

}  // namespace fathom::model
