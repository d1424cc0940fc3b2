#include "tests/engine/fake_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "base/check.h"

namespace fathom::testing {
namespace {

constexpr KeyLayout kKeys = {.head_dim = 64, .rope_dims = 64};
constexpr std::int64_t kFine = 0;    // the layer of ratio 4
constexpr std::int64_t kCoarse = 1;  // the layer of ratio 128
constexpr std::int64_t kDraft = 2;
constexpr std::int64_t kLayers = 3;  // of a pass: its parts, not layers of the caches

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::uint64_t Add(std::uint64_t hash, std::uint64_t value) { return Mix(hash ^ value); }

std::uint64_t HashTokens(std::uint64_t hash, std::span<const Token> tokens) {
  for (const Token token : tokens) {
    hash = Add(hash, static_cast<std::uint64_t>(token));
  }
  return hash;
}

template <class T>
void Write(std::uint8_t* row, const T& value) {
  if (row != nullptr) {
    std::memcpy(row, &value, sizeof(T));
  }
}

template <class T>
T Read(const std::uint8_t* row) {
  Check(row != nullptr, "the fake model reads a row that has no block");
  T value;
  std::memcpy(&value, row, sizeof(T));
  return value;
}

// The content of a row of the layer of ratio 4.
struct Four {
  Token tokens[4];
};

// The hash that HashRow finds in the caches of a sequence of these tokens.
std::uint64_t HashOfText(std::span<const Token> tokens, std::int64_t sliding_window) {
  const auto n = std::ssize(tokens);
  const auto part = [&](std::int64_t first, std::int64_t end) {
    return tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
  };
  std::uint64_t hash = HashTokens(1, part(0, n / 4 * 4));
  for (std::int64_t row = 0; row < n / 128; ++row) {
    hash = Add(hash, HashTokens(1, part(128 * row, 128 * (row + 1))));
  }
  hash = HashTokens(hash, part(std::max<std::int64_t>(n / 4 * 4 - 4, 0), n));
  return HashTokens(hash, part(std::max<std::int64_t>(n - sliding_window, 0), n));
}

void FillLogits(std::uint64_t state, std::span<float> logits) {
  for (float& logit : logits) {
    state = Mix(state);
    logit = static_cast<float>(state >> 40) * 0x1p-21f - 4.0f;  // -4 to 4
  }
}

}  // namespace

FakeModel::FakeModel(const FakeModelOptions& options)
    : options_(options),
      rounds_(options.limits.max_batch_tokens, options.limits.max_sequences,
              options.limits.max_logit_rows),
      chooser_(options.limits.vocab_size) {
  CacheShape shape = {.keys = kKeys,
                      .sliding_window = options.sliding_window,
                      .ratios = {4, 128},
                      .max_context = options.limits.max_context,
                      .n_sequences = options.limits.max_sequences,
                      .data = {.n = options.n_data},
                      .rollback = options.limits.rollback_tokens,
                      .memory_bytes = options.memory_bytes};
  if (options.limits.max_draft_depth > 0) {
    shape.ratios.push_back(0);
    shape.n_draft_layers = 1;
    shape.lookahead = options.limits.rollback_tokens;
    shape.stream_bytes = 8;
  }
  caches_.reserve(static_cast<std::size_t>(options.n_data));
  for (int& rank = shape.data.rank; rank < options.n_data; ++rank) {
    Result<SequenceCache> cache = SequenceCache::Create(backend_, shape);
    Check(cache.has_value(), "the fake model's caches");
    caches_.push_back(std::move(*cache));
  }
  if (options.n_data > 1) {
    shadow_.emplace(cache());
  }
  const auto rows = static_cast<std::size_t>(options.limits.max_batch_tokens);
  row_hashes_.reserve(rows);
  draft_hashes_.reserve(rows);
  places_.resize(static_cast<std::size_t>(options.limits.most_in_flight));
  for (Place& place : places_) {
    place.logits.resize(static_cast<std::size_t>(
        options.limits.vocab_size * std::max<std::int64_t>(options.limits.max_logit_rows, 1)));
  }
}

FakeModel::Own FakeModel::OwnSegment(const Segment& segment) {
  const DataRanks& data = cache().shape().data;
  Own own = {caches_[static_cast<std::size_t>(data.Owner(segment.sequence))], segment};
  own.segment.sequence = data.OwnSlot(segment.sequence);
  return own;
}

void FakeModel::TellChanges(const BatchView& view) {
  if (!shadow_) {
    return;
  }
  RankMessage message;
  shadow_->WriteChanges(view, message);
  for (std::size_t rank = 1; rank < caches_.size(); ++rank) {
    RankMessage heard = message;
    ReadChanges(heard, caches_[rank]);
    Check(heard.IsRead(), "what was told and not heard");
  }
}

// The token at `position`, from the batch or from the compressor's tail.
Token FakeModel::TailToken(const CompressorCache& compressor, const Segment& segment,
                           const BatchView& view, std::int64_t position) const {
  if (position >= segment.first_position) {
    return view
        .tokens[static_cast<std::size_t>(segment.first_row + position - segment.first_position)];
  }
  return static_cast<Token>(
      compressor.Before(segment.sequence, position, segment.first_position).values[0]);
}

void FakeModel::StoreRows(const Own& own, const BatchView& view) {
  const auto& [cache, segment] = own;
  LayerCache& fine = cache.Layer(kFine);
  LayerCache& coarse = cache.Layer(kCoarse);
  const std::int64_t end = segment.first_position + segment.n_tokens;
  for (std::int64_t row = segment.first_position / 4; row < end / 4; ++row) {
    Four four = {};
    for (std::int64_t i = 0; i < 4; ++i) {
      four.tokens[i] = TailToken(fine.compressor, segment, view, 4 * row + i);
    }
    Write(fine.compressor.rows.Row(segment.sequence, row), four);
  }
  for (std::int64_t row = segment.first_position / 128; row < end / 128; ++row) {
    std::uint64_t hash = 1;
    for (std::int64_t p = 128 * row; p < 128 * (row + 1); ++p) {
      hash = Add(hash, static_cast<std::uint64_t>(TailToken(coarse.compressor, segment, view, p)));
    }
    Write(coarse.compressor.rows.Row(segment.sequence, row), hash);
  }
}

// After the rows and the logits are made: both read what was there before.
void FakeModel::StoreTokens(const Own& own, const BatchView& view) {
  const auto& [cache, segment] = own;
  LayerCache& fine = cache.Layer(kFine);
  LayerCache& coarse = cache.Layer(kCoarse);
  const std::int64_t end = segment.first_position + segment.n_tokens;
  std::vector<float> inputs(static_cast<std::size_t>(2 * kKeys.head_dim));
  for (std::int64_t p = segment.first_position; p < end; ++p) {
    const Token token = TailToken(fine.compressor, segment, view, p);
    std::fill(inputs.begin(), inputs.end(), static_cast<float>(token));
    for (LayerCache* layer : {&fine, &coarse}) {
      layer->compressor.Keep(segment.sequence, p, inputs.data(), inputs.data());
      if (layer->compressor.IsBoundary(p)) {
        layer->compressor.KeepBoundary(segment.sequence, p, inputs.data(), inputs.data());
      }
      Write(layer->window.Row(segment.sequence, p), token);
    }
  }
}

// Everything that a query at `position` may see: compressed rows, the inputs of rows that are not
// finished (and of the row before them), and the window.
std::uint64_t FakeModel::HashRow(const Own& own, const BatchView& view, std::int64_t position) {
  const auto& [cache, segment] = own;
  const LayerCache& fine = cache.Layer(kFine);
  const LayerCache& coarse = cache.Layer(kCoarse);
  std::uint64_t hash = 1;
  for (std::int64_t row = 0; row < (position + 1) / 4; ++row) {
    const auto four = Read<Four>(fine.compressor.rows.Row(segment.sequence, row));
    hash = HashTokens(hash, four.tokens);
  }
  for (std::int64_t row = 0; row < (position + 1) / 128; ++row) {
    hash = Add(hash, Read<std::uint64_t>(coarse.compressor.rows.Row(segment.sequence, row)));
  }
  const std::int64_t first_open = std::max<std::int64_t>((position + 1) / 4 * 4 - 4, 0);
  for (std::int64_t p = first_open; p <= position; ++p) {
    hash = Add(hash, static_cast<std::uint64_t>(TailToken(fine.compressor, segment, view, p)));
  }
  const std::int64_t oldest = std::max<std::int64_t>(position - options_.sliding_window + 1, 0);
  for (std::int64_t p = oldest; p <= position; ++p) {
    const Token token = p >= segment.first_position
                            ? TailToken(fine.compressor, segment, view, p)
                            : Read<Token>(coarse.window.Row(segment.sequence, p));
    hash = Add(hash, static_cast<std::uint64_t>(token));
  }
  return hash;
}

std::vector<float> FakeModel::Expected(std::span<const Token> tokens, std::int64_t vocab_size,
                                       std::int64_t sliding_window) {
  std::vector<float> logits(static_cast<std::size_t>(vocab_size));
  FillLogits(HashOfText(tokens, sliding_window), logits);
  return logits;
}

Status FakeModel::Fail(const BatchView& view) {
  for (const Segment& segment : view.segments) {
    cache().Release(segment.sequence);
  }
  return MakeError(fail_code, "the fake model fails as told");
}

Result<FakeModel::Running> FakeModel::Begin(const Batch& batch) {
  Running pass = {.view = batch.View(), .fails = n_forwards == fail_at_forward};
  const ModelLimits& limits = options_.limits;
  const std::int64_t most = paused_ ? limits.pause_tokens : limits.max_batch_tokens;
  Check(pass.view.n_tokens() >= 1 && pass.view.n_tokens() <= most, "a batch's tokens");
  if (forward_takes.count() > 0) std::this_thread::sleep_for(forward_takes);
  if (n_forwards == throw_at_forward) {
    throw std::bad_alloc();
  }
  ++n_forwards;
  for (const Segment& segment : pass.view.segments) {
    const Status extended =
        cache().Extend(segment.sequence, segment.first_position, segment.n_tokens);
    Check(extended.has_value(), "room was made before");
  }
  TellChanges(pass.view);
  return pass;
}

Status FakeModel::RunLayer(Running& pass) {
  const BatchView& view = pass.view;
  const std::int64_t layer = pass.layers_done++;
  if (pass.fails && layer == 1) return Fail(view);
  for (const Segment& segment : view.segments) {
    const Own own = OwnSegment(segment);
    if (layer == 0) StoreRows(own, view);
    for (std::int64_t i = 0; layer == 1 && i < segment.n_tokens; ++i) {
      pass.row_hashes.push_back(HashRow(own, view, segment.first_position + i));
    }
    if (layer == 2) StoreTokens(own, view);
  }
  if (pass.layers_done < kLayers) return {};
  std::vector<std::int64_t> tokens_of_rank(caches_.size());
  for (const Segment& segment : view.segments) {
    for (SequenceCache& cache : caches_) {
      cache.MarkComputed(segment.sequence, segment.first_position + segment.n_tokens);
    }
    tokens_of_rank[static_cast<std::size_t>(OwnSegment(segment).cache.shape().data.rank)] +=
        segment.n_tokens;
  }
  row_hashes_ = pass.row_hashes;
  n_tokens += view.n_tokens();
  n_waited_tokens += *std::ranges::max_element(tokens_of_rank);
  return {};
}

Status FakeModel::Forward(const Batch& batch, std::vector<SequenceFailure>& failed) {
  failed.clear();
  Result<Running> pass = Begin(batch);
  if (!pass) return Unexpected(pass.error());
  Status ran;
  while (ran && pass->layers_done < kLayers) ran = RunLayer(*pass);
  return ran;
}

class FakeModel::FakePass final : public LayeredPass {
 public:
  explicit FakePass(FakeModel& model) : model_(model) {}
  ~FakePass() override { model_.StopPass(); }
  Result<PassProgress> Continue(std::vector<SequenceFailure>& failed) override {
    failed.clear();
    return model_.ContinuePass();
  }

 private:
  FakeModel& model_;
};

Result<std::unique_ptr<LayeredPass>> FakeModel::BeginPass(const Batch& batch,
                                                          ShouldStop should_stop) {
  Check(options_.limits.pause_tokens > 0 && !paused_, "a pass in pieces beside another");
  Result<Running> pass = Begin(batch);
  if (!pass) return Unexpected(pass.error());
  paused_ = *std::move(pass);
  should_stop_ = std::move(should_stop);
  return std::make_unique<FakePass>(*this);
}

Result<PassProgress> FakeModel::ContinuePass() {
  Check(paused_.has_value(), "a pass that has begun");
  if (on_layer) on_layer();
  if (should_stop_ && should_stop_()) {
    StopPass();
    return MakeError(ErrorCode::kResourceExhausted, "stopped");
  }
  const Status ran = RunLayer(*paused_);
  const PassProgress progress = {.layers_done = paused_->layers_done, .layers = kLayers};
  if (!ran || progress.HasEnded()) paused_.reset();
  if (!ran) return Unexpected(ran.error());
  return progress;
}

void FakeModel::StopPass() {
  if (!paused_) return;
  for (const Segment& segment : paused_->view.segments) cache().Release(segment.sequence);
  paused_.reset();
}

void FakeModel::FillPlace(std::span<const std::uint64_t> hashes, std::span<const std::int32_t> rows,
                          DescribeRows describe, int place) {
  Check(std::ssize(rows) <= options_.limits.max_logit_rows, "rows of logits");
  Place& filled = places_[static_cast<std::size_t>(place)];
  Check(filled.n_rows < 0, "logits that were not taken");
  filled.n_rows = std::ssize(rows);
  filled.describe = std::move(describe);
  const Matrix<float> logits = {filled.logits.data(), filled.n_rows, options_.limits.vocab_size};
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    FillLogits(hashes[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])],
               logits.RowSpan(i));
  }
}

Status FakeModel::StartTokens(std::span<const std::int32_t> rows, DescribeRows describe,
                              int place) {
  FillPlace(row_hashes_, rows, std::move(describe), place);
  most_rows = std::max(most_rows, std::ssize(rows));
  most_at_once = std::max(
      most_at_once, static_cast<int>(std::count_if(places_.begin(), places_.end(),
                                                   [](const Place& p) { return p.n_rows >= 0; })));
  if (n_forwards == nan_at_forward) {
    places_[static_cast<std::size_t>(place)].logits[1] = std::numeric_limits<float>::quiet_NaN();
  }
  return {};
}

// As a model whose ranks share the logits: the rows are described late.
Result<ChosenTokens> FakeModel::FinishTokens(int place) {
  Place& filled = places_[static_cast<std::size_t>(place)];
  Check(filled.n_rows >= 0, "logits that were asked for");
  const Matrix<const float> logits = {filled.logits.data(), std::exchange(filled.n_rows, -1),
                                      options_.limits.vocab_size};
  const DescribeRows describe = std::exchange(filled.describe, {});
  choices_.clear();
  if (!describe) return ChosenTokens{choices_, logits};
  for (const SamplingRow& row : describe()) {
    const auto i = std::ssize(choices_);
    choices_.push_back(row.is_chosen ? chooser_.Choose(logits.RowSpan(i), row) : TokenChoice());
  }
  return ChosenTokens{choices_, logits};
}

std::vector<Token> FakeModel::Recall(const Own& own, std::int64_t end) {
  const CompressorCache& fine = own.cache.Layer(kFine).compressor;
  const std::int32_t sequence = own.segment.sequence;
  std::vector<Token> tokens;
  for (std::int64_t row = 0; row < end / 4; ++row) {
    const auto four = Read<Four>(fine.rows.Row(sequence, row));
    tokens.insert(tokens.end(), four.tokens, four.tokens + 4);
  }
  for (std::int64_t p = end / 4 * 4; p < end; ++p) {
    tokens.push_back(static_cast<Token>(fine.Before(sequence, p, end).values[0]));
  }
  return tokens;
}

Status FakeModel::CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                                  StreamSource source) {
  const BatchView view = next.View();
  Check(options_.limits.max_draft_depth > 0, "a draft head");
  Check(std::ssize(stream_rows) == (source == StreamSource::kKept ? 0 : view.n_tokens()),
        "a stream row per token");
  for (const Segment& segment : view.segments) {
    const std::int64_t stands = cache().next_position(segment.sequence);
    if (source == StreamSource::kKept) {
      Check(segment.first_position == stands - 1, "the newest position");
      Check(cache().Extend(segment.sequence, stands, 0).has_value(), "room was made before");
    }
  }
  RunDraftHead(view, DraftPass::kCommit);
  return {};
}

Status FakeModel::ProposeDrafts(std::span<const DraftRequest> requests,
                                const DescribeDrafts& describe, const ChooseDrafts& choose) {
  const auto choose_from = [this](std::span<const std::int32_t> rows, DescribeRows describe_rows) {
    FillPlace(draft_hashes_, rows, std::move(describe_rows), 0);
    return FinishTokens(0);
  };
  const auto forward = [this](const Batch& next, std::span<const std::int32_t> stream_rows) {
    Check(std::ssize(stream_rows) == next.n_tokens(), "a stream row per token");
    RunDraftHead(next.View(), DraftPass::kDraft);
    return Status();
  };
  return rounds_.Run(requests, draft_positions_, {choose_from, forward}, describe, choose);
}

// The head sees, of what lies behind the main model's positions, only its own drafts.
void FakeModel::RunDraftHead(const BatchView& view, DraftPass pass) {
  draft_hashes_.clear();
  ListPositions(view, draft_positions_);
  TellChanges(view);
  for (const Segment& whole : view.segments) {
    const Own own = OwnSegment(whole);
    const Segment& segment = own.segment;
    const WindowCache& window = own.cache.Layer(kDraft).window;
    const std::int64_t stands = cache().next_position(whole.sequence);
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      const std::int64_t position = segment.first_position + i;
      const Token token = view.tokens[static_cast<std::size_t>(segment.first_row + i)];
      Check(pass == DraftPass::kDraft || position < stands, "a position with streams");
      Write(window.Row(segment.sequence, position), token);
      // The token behind a position: from this batch, or as an earlier batch stored it.
      const auto behind = [&](std::int64_t p) {
        return p >= segment.first_position ? view.tokens[static_cast<std::size_t>(
                                                 segment.first_row + p - segment.first_position)]
                                           : Read<Token>(window.Row(segment.sequence, p));
      };
      std::vector<Token> tokens = Recall(own, stands);
      tokens.resize(static_cast<std::size_t>(std::min(position + 1, stands)));
      for (std::int64_t p = std::ssize(tokens) - 1; p <= position; ++p) {
        tokens.push_back(behind(p));
      }
      const std::int64_t oldest = std::max<std::int64_t>(position - options_.sliding_window + 1, 0);
      for (std::int64_t p = oldest; p < segment.first_position; ++p) {
        const bool fresh = behind(p) == tokens[static_cast<std::size_t>(p + 1)];
        n_stale_draft_rows += fresh ? 0 : 1;
      }
      const std::uint64_t chance = HashTokens(7, tokens);
      const bool knows = static_cast<double>(chance >> 11) * 0x1p-53 < options_.draft_accuracy;
      draft_hashes_.push_back(knows ? HashOfText(tokens, options_.sliding_window) : chance);
    }
  }
}

}  // namespace fathom::testing
