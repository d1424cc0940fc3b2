#include "model/draft/mtp.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/draft/stream_check.h"
#include "model/model_limits.h"
#include "model/model_state.h"
#include "model/model_tensors.h"

namespace fathom::model {
namespace {

// Indices, in the order of MtpTensors.
enum Vectors { kENorm, kHNorm, kNorm };  // [hidden]
enum Matrices { kEProj, kHProj };        // [hidden, hidden]

// The head is trained for one token ahead; each further draft is less certain.
constexpr int kMtpDepth = 4;

std::vector<ModelTensor> MtpTensors(const ModelConfig& config) {
  using enum ModelTensor::Kind;
  const std::int64_t hidden = config.hidden_size;
  return {{"enorm", kVector, hidden},
          {"hnorm", kVector, hidden},
          {"norm", kVector, hidden},
          {"e_proj", kFp8, hidden, hidden},
          {.name = "h_proj",
           .kind = kFp8,
           .rows = hidden,
           .cols = hidden,
           .products_per_token = kStreams}};
}

}  // namespace

constinit const DrafterKind kMtpDrafter = {
    .name = "MTP",
    .option = "mtp",
    .description = "an MTP head (mtp.0.e_proj.weight and others)",
    .prefix = "mtp.",
    .mark = "mtp.0.e_proj.weight",
    .max_depth = kMtpDepth,
    .depth = [](const ModelConfig&) { return kMtpDepth; },
    .first_layer = [](const ModelConfig& config) { return config.num_hidden_layers - 1; },
    .is_announced =
        [](const ModelConfig& config) {
          return config.num_nextn_predict_layers > 0 && !config.dspark;
        },
    .announce = [](ModelConfig& config) { config.num_nextn_predict_layers = 1; },
    .adopt = [](int /*n_stages*/, ModelConfig& /*config*/) { return Status(); },
    .tensors = MtpTensors,
    .sizes =
        [](const ModelConfig& config) {
          const std::int64_t columns = kStreams * config.hidden_size;
          return DraftSizes{.ratios = {0},
                            .keys_follow_tokens = true,
                            .stream_bytes = columns * static_cast<std::int64_t>(sizeof(Bf16)),
                            .input_columns = columns};
        },
    .make = [](ModelState& model) -> std::unique_ptr<Drafter> {
      return std::make_unique<MtpDrafter>(model);
    },
};

MtpDrafter::MtpDrafter(ModelState& model)
    : model_(model),
      rounds_(model.options.max_batch_tokens, model.options.max_sequences,
              model.options.max_logit_rows),
      head_{
          .choose = [this](std::span<const std::int32_t> rows,
                           DescribeRows describe) { return ChooseFrom(rows, std::move(describe)); },
          .forward =
              [this](const Batch& next, std::span<const std::int32_t> stream_rows) {
                return DraftAgain(next, stream_rows);
              }} {
  kept_streams_.reserve(static_cast<std::size_t>(model.options.max_batch_tokens));
  const auto n_tokens = static_cast<std::size_t>(model.options.max_batch_tokens);
  committed_.Reserve(model.options.max_batch_tokens, model.options.max_sequences);
  input_rows_.reserve(n_tokens);
  first_.Reserve(model.options.max_batch_tokens, model.options.max_sequences);
  first_rows_.reserve(n_tokens);
  requests_.reserve(n_tokens);
}

// Stores the streams after the last layer that commits of later steps may need: the streams of the
// newest position of each sequence, and of the last position of each block.
void MtpDrafter::Tap(std::int64_t layer, const BatchView& whole, const Step& step) {
  if (layer + 1 < model_.config.num_hidden_layers) return;
  kept_streams_.clear();
  for (const Segment& segment : whole.segments) {
    if (!model_.parts.tensor->IsLocal(segment.sequence)) continue;
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (i + 1 == segment.n_tokens || (position + 1) % kBlockTokens == 0) {
        const std::int64_t row = model_.main->local.LocalRow(segment.first_row + i);
        kept_streams_.push_back({segment.sequence, position, step.a.streams.Row(row)});
      }
    }
  }
  model_.cache->KeepStreams(kept_streams_);
}

Status MtpDrafter::Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                           StreamSource source) {
  const BatchView view = next.View();
  if (Status status = model_.CheckBatch(view); !status) return status;
  if (Status status = CheckStreams(model_, view, stream_rows, source); !status) return status;
  for (const Segment& segment : view.segments) {
    if (source != StreamSource::kKept) break;
    const std::int64_t position = model_.cache->next_position(segment.sequence);
    if (Status extended = model_.cache->Extend(segment.sequence, position, 0); !extended) {
      return extended;
    }
  }
  return {};
}

// Stores only keys: they depend on no output of the block, and most rows never need anything else.
// Propose runs the block on the other rows.
Status MtpDrafter::Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                          StreamSource source) {
  if (Status prepared = Prepare(next, stream_rows, source); !prepared) return prepared;
  const BatchView view = next.View();
  Remember(view);
  if (source == StreamSource::kKept) {
    return Forward(view, Wanted::kKeys, [&](std::int64_t i) -> const void* {
      return model_.cache->Stream(view.FindSegment(i).sequence);
    });
  }
  const Matrix<const Bf16> streams = model_.activations().streams;
  return Forward(view, Wanted::kKeys, [&](std::int64_t i) -> const void* {
    return streams.Row(model_.main->local.LocalRow(stream_rows[static_cast<std::size_t>(i)]));
  });
}

Status MtpDrafter::Propose(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                           const ChooseDrafts& choose) {
  requests_.clear();
  bool wants_drafts = false;
  for (const DraftRequest& request : requests) {
    Check(request.row >= 0 && request.row < committed_.n_tokens(),
          "drafts behind a row that was not committed");
    wants_drafts = wants_drafts || request.n_drafts > 0;
    requests_.push_back(request);
  }
  if (!wants_drafts) return {};
  if (Status ran = RunFirst(); !ran) return ran;
  return rounds_.Run(requests_, model_.draft.positions, head_, describe, choose);
}

void MtpDrafter::Remember(const BatchView& committed) {
  committed_.Clear();
  for (const Segment& segment : committed.segments) {
    committed_.Add(segment.sequence, segment.first_position,
                   committed.tokens.subspan(static_cast<std::size_t>(segment.first_row),
                                            static_cast<std::size_t>(segment.n_tokens)));
  }
  input_rows_.clear();
  std::int64_t n_local = 0;
  for (std::int64_t row = 0; row < committed.n_tokens(); ++row) {
    const bool is_local = model_.parts.tensor->IsLocal(committed.FindSegment(row).sequence);
    input_rows_.push_back(is_local ? n_local++ : -1);
  }
}

// Returns true if all keys that a committed row sees are in the cache: much later rows may have
// overwritten keys of its own segment.
bool MtpDrafter::SeesKeysInCache(std::int32_t row) const {
  const BatchView committed = committed_.View();
  const Segment& segment = committed.FindSegment(row);
  if (segment.n_tokens == 1) return true;
  return row + 1 == segment.first_row + segment.n_tokens &&
         RowPosition(committed, row).position >= model_.cache->earliest_next(segment.sequence);
}

// Runs the block on the rows of requests_ if their keys are in the cache, or else on all committed
// rows, which see the keys of each other; sets the rows of the requests in the pass.
Status MtpDrafter::RunFirst() {
  const BatchView committed = committed_.View();
  const bool sees_keys = std::ranges::all_of(requests_, [&](const DraftRequest& request) {
    return request.n_drafts <= 0 || SeesKeysInCache(request.row);
  });
  first_rows_.clear();
  if (sees_keys) {
    ListRequestedRows();
  } else {
    first_rows_.resize(static_cast<std::size_t>(committed.n_tokens()));
    std::iota(first_rows_.begin(), first_rows_.end(), 0);
  }
  if (model_.stage().is_last) CopyInputs();
  return RunHead(sees_keys ? first_.View() : committed, Wanted::kOutputs, /*has_inputs=*/true);
}

// Sets first_rows_ and first_ to the committed rows of requests_.
void MtpDrafter::ListRequestedRows() {
  const BatchView committed = committed_.View();
  first_.Clear();
  for (DraftRequest& request : requests_) {
    const std::int32_t row = std::exchange(request.row, 0);
    if (request.n_drafts <= 0) continue;
    request.row = static_cast<std::int32_t>(first_.n_tokens());
    const TokenPosition at = RowPosition(committed, row);
    first_.Add(at.sequence, at.position,
               committed.tokens.subspan(static_cast<std::size_t>(row), 1));
    first_rows_.push_back(row);
  }
}

// Copies the inputs of the local rows of first_rows_ to a.draft_streams.
void MtpDrafter::CopyInputs() {
  const Activations& a = model_.activations();
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  for (const std::int32_t row : first_rows_) {
    const std::int64_t from = input_rows_[static_cast<std::size_t>(row)];
    if (from < 0) continue;
    copies.push_back({a.draft_streams.Row(std::ssize(copies)), a.draft_input.Row(from),
                      a.draft_input.cols * static_cast<std::int64_t>(sizeof(Bf16))});
  }
  model_.backend.CopyPieces(copies);
}

Status MtpDrafter::DraftAgain(const Batch& next, std::span<const std::int32_t> stream_rows) {
  const BatchView view = next.View();
  if (Status status = model_.CheckBatch(view); !status) return status;
  const Matrix<const Bf16> streams = model_.activations().draft_streams;
  return Forward(view, Wanted::kOutputs, [&](std::int64_t i) -> const void* {
    return streams.Row(model_.draft.local.LocalRow(stream_rows[static_cast<std::size_t>(i)]));
  });
}

// Runs the head on the process that has it; find_stream(i): the streams of a local row.
template <class FindStream>
Status MtpDrafter::Forward(const BatchView& next, Wanted wanted, const FindStream& find_stream) {
  if (model_.stage().is_last) CopyStreams(next, find_stream);  // indexed by rows of the last step
  return RunHead(next, wanted, /*has_inputs=*/false);
}

// Copies the streams of the local rows to a.draft_input.
template <class FindStream>
void MtpDrafter::CopyStreams(const BatchView& next, const FindStream& find_stream) {
  const Matrix<Bf16> to = model_.activations().draft_input;
  std::vector<PieceCopy>& copies = model_.copies;
  copies.clear();
  for (std::int64_t i = 0; i < next.n_tokens(); ++i) {
    if (model_.parts.tensor->IsLocal(next.FindSegment(i).sequence)) {
      copies.push_back({to.Row(std::ssize(copies)), find_stream(i),
                        to.cols * static_cast<std::int64_t>(sizeof(Bf16))});
    }
  }
  model_.backend.CopyPieces(copies);
}

// Runs the head on a.draft_input; has_inputs: on a.draft_streams, the inputs of its block.
Status MtpDrafter::RunHead(const BatchView& next, Wanted wanted, bool has_inputs) {
  if (model_.stage().is_last) {
    const Result<Step> step = model_.MakeStep(Pass::kDraft, next);
    Status ran = step ? Status() : Unexpected(step.error());
    if (ran && !has_inputs) ran = Project(*step);
    if (ran) ran = wanted == Wanted::kKeys ? StoreKeys(*step) : RunHeadBlock(*step);
    if (!ran) {
      model_.ResetSequences(next.segments);
      return ran;
    }
  }
  ListPositions(next, model_.draft.positions);
  return {};
}

// a.draft_input -> a.draft_streams: the inputs of the block.
Status MtpDrafter::Project(const Step& step) {
  const DraftWeights& weights = *model_.weights.draft;
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const std::int64_t n = step.batch.n_tokens();
  const std::int64_t d = step.config.hidden_size;
  const float eps = step.config.rms_norm_eps;
  // The norm and h_proj work on every stream separately: [t, 4 d] seen as [4 t, d].
  const Matrix<Bf16> normed = {a.draft_input.data, n * kStreams, d};
  const Matrix<Bf16> projected = {a.draft_streams.data, n * kStreams, d};
  backend.RmsNorm(normed, weights.vectors[kHNorm], eps, normed);
  backend.Linear(normed, weights.matrices[kHProj], projected);
  if (Status status = step.tensor.Embed(step.batch, model_.weights.embed, a, a.u); !status) {
    return status;
  }
  backend.RmsNorm(a.u, weights.vectors[kENorm], eps, a.u);
  backend.Linear(a.u, weights.matrices[kEProj], a.y);
  backend.AddToStreams(a.y, a.draft_streams);
  return {};
}

// Stores the keys, and copies the inputs of the block to a.draft_input, for drafts.
Status MtpDrafter::StoreKeys(const Step& step) {
  const BlockWeights& block = model_.weights.draft->blocks.front();
  StoreWindowKeys(step, block, model_.BlockCache(block.index), step.a.draft_streams);
  const Matrix<Bf16> inputs = step.a.draft_input;
  const std::int64_t bytes = inputs.rows * inputs.cols * static_cast<std::int64_t>(sizeof(Bf16));
  const PieceCopy copy = {inputs.data, step.a.draft_streams.data, bytes};
  step.backend.CopyPieces({&copy, 1});
  return {};
}

Status MtpDrafter::RunHeadBlock(const Step& step) {
  const BlockWeights& block = model_.weights.draft->blocks.front();
  return RunBlock(step, block, model_.BlockCache(block.index), step.a.draft_streams);
}

HeadWeights MtpDrafter::FinalWeights() const {
  const DraftWeights& weights = *model_.weights.draft;
  const std::span<const Bf16> norm =
      weights.vectors.empty() ? std::span<const Bf16>() : weights.vectors[kNorm];
  return {.hc = weights.hc_head, .norm = norm};
}

Result<ChosenTokens> MtpDrafter::ChooseFrom(std::span<const std::int32_t> rows,
                                            DescribeRows describe) {
  if (Status started = model_.StartTokens(Pass::kDraft, model_.activations().draft_streams, rows,
                                          FinalWeights(), std::move(describe), 0);
      !started) {
    return Unexpected(started.error());
  }
  return model_.tokens->Finish(0);
}

}  // namespace fathom::model
