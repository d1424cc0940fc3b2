#include "model/draft/mtp.h"

#include <vector>

#include "base/check.h"
#include "model/draft/stream_check.h"
#include "model/model_limits.h"
#include "model/model_state.h"

namespace fathom {
namespace {

// In the order of MtpTensors.
enum Vectors { kENorm, kHNorm, kNorm };  // [hidden]
enum Matrices { kEProj, kHProj };        // [hidden, hidden]

// The head is trained for one token ahead; each further draft is less certain.
constexpr int kMtpDepth = 4;

std::vector<DraftTensor> MtpTensors(const ModelConfig& config) {
  using Kind = DraftTensor::Kind;
  const std::int64_t hidden = config.hidden_size;
  return {{.name = "enorm", .kind = Kind::kVector, .rows = hidden},
          {.name = "hnorm", .kind = Kind::kVector, .rows = hidden},
          {.name = "norm", .kind = Kind::kVector, .rows = hidden},
          {.name = "e_proj", .kind = Kind::kFp8, .rows = hidden, .cols = hidden},
          {.name = "h_proj",
           .kind = Kind::kFp8,
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
      passes_{.logits = [this](std::span<const std::int32_t> rows) { return Logits(rows); },
              .forward =
                  [this](const Batch& next, std::span<const std::int32_t> stream_rows) {
                    return DraftAgain(next, stream_rows);
                  }},
      sampled_passes_{
          .logits = [this](std::span<const std::int32_t> rows) { return SampledLogits(rows); },
          .forward = passes_.forward} {
  choices_.reserve(static_cast<std::size_t>(model.options.max_logit_rows));
  kept_streams_.reserve(static_cast<std::size_t>(model.options.max_batch_tokens));
}

// Keeps the streams behind the last layer that commits of later steps may need: those of the newest
// position of each sequence, and of the last position of each block.
void MtpDrafter::Tap(std::int64_t layer, const BatchView& whole, const Step& step) {
  if (layer + 1 < model_.config.num_hidden_layers) return;
  kept_streams_.clear();
  for (const Segment& segment : whole.segments) {
    if (!model_.parts.tensor->IsLocal(segment.sequence)) continue;
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      const std::int64_t position = segment.first_position + i;
      if (i + 1 == segment.n_tokens || (position + 1) % kBlockTokens == 0) {
        const std::int64_t row = model_.main.local.LocalRow(segment.first_row + i);
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

Status MtpDrafter::Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                          StreamSource source) {
  if (Status prepared = Prepare(next, stream_rows, source); !prepared) return prepared;
  const BatchView view = next.View();
  if (source == StreamSource::kKept) {
    return Forward(view, [&](std::int64_t i) -> const void* {
      return model_.cache->Stream(view.FindSegment(i).sequence);
    });
  }
  const Matrix<const Bf16> streams = model_.workspace->activations().streams;
  return Forward(view, [&](std::int64_t i) -> const void* {
    return streams.Row(model_.main.local.LocalRow(stream_rows[static_cast<std::size_t>(i)]));
  });
}

Status MtpDrafter::Propose(std::span<const DraftRequest> requests, const ChooseDrafts& choose) {
  return rounds_.Run(requests, model_.draft.positions, passes_, choose);
}

Status MtpDrafter::ProposeTokens(std::span<const DraftRequest> requests,
                                 const DraftSampling& sampling) {
  Check(model_.ChoosesTokens(), "drafts of a model that does not choose tokens");
  const auto choose = [&](const DraftLogits& found, std::span<Token> tokens) {
    choices_.resize(tokens.size());
    model_.backend.ChooseTokens(found.logits, sampling.describe(found.requests), choices_);
    if (Status done = model_.backend.Synchronize(); !done) return done;
    sampling.take(found.requests, choices_, tokens);
    return Status();
  };
  return rounds_.Run(requests, model_.draft.positions, sampled_passes_, choose);
}

Status MtpDrafter::DraftAgain(const Batch& next, std::span<const std::int32_t> stream_rows) {
  const BatchView view = next.View();
  if (Status status = model_.CheckBatch(view); !status) return status;
  const Matrix<const Bf16> streams = model_.workspace->activations().draft_streams;
  return Forward(view, [&](std::int64_t i) -> const void* {
    return streams.Row(model_.draft.local.LocalRow(stream_rows[static_cast<std::size_t>(i)]));
  });
}

// Runs the head where it is; find_stream(i): the streams of a local row.
template <class FindStream>
Status MtpDrafter::Forward(const BatchView& next, const FindStream& find_stream) {
  if (model_.stage().is_last) {
    CopyStreams(next, find_stream);  // by the rows of the last step
    const Result<Step> step = model_.MakeStep(Pass::kDraft, next);
    if (Status ran = step ? RunHead(*step) : Unexpected(step.error()); !ran) {
      model_.ResetSequences(next.segments);
      return ran;
    }
  }
  ListPositions(next, model_.draft.positions);
  return {};
}

// Puts the streams of the local rows into a.draft_input.
template <class FindStream>
void MtpDrafter::CopyStreams(const BatchView& next, const FindStream& find_stream) {
  const Matrix<Bf16> to = model_.workspace->activations().draft_input;
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

// a.draft_input -> a.draft_streams.
Status MtpDrafter::RunHead(const Step& step) {
  const DraftWeights& weights = *model_.weights.draft;
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const std::int64_t n = step.batch.n_tokens();
  const std::int64_t d = step.config.hidden_size;
  const float eps = step.config.rms_norm_eps;
  // The norm and h_proj work on every stream alone: [t, 4 d] seen as [4 t, d].
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
  const BlockWeights& block = weights.blocks.front();
  return RunBlock(step, block, model_.BlockCache(block.index), a.draft_streams);
}

HeadWeights MtpDrafter::FinalWeights() const {
  const DraftWeights& weights = *model_.weights.draft;
  const std::span<const Bf16> norm =
      weights.vectors.empty() ? std::span<const Bf16>() : weights.vectors[kNorm];
  return {.hc = weights.hc_head, .norm = norm};
}

Result<Matrix<const float>> MtpDrafter::Logits(std::span<const std::int32_t> rows) {
  if (Status started = model_.StartLogits(
          Pass::kDraft, model_.workspace->activations().draft_streams, rows, FinalWeights(), 0);
      !started) {
    return Unexpected(started.error());
  }
  return model_.parts.tensor->FinishLogits(0);
}

Result<Matrix<const float>> MtpDrafter::SampledLogits(std::span<const std::int32_t> rows) {
  const Activations& a = model_.workspace->activations();
  const Matrix<float> logits = a.sampled_logits.Rows(0, std::ssize(rows));
  if (Status computed =
          model_.ComputeLogits(Pass::kDraft, a.draft_streams, rows, FinalWeights(), logits);
      !computed) {
    return Unexpected(computed.error());
  }
  return Matrix<const float>(logits);
}

}  // namespace fathom
