#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/commands/commands.h"
#include "cli/commands/draft_trace.h"
#include "cli/commands/row_spool.h"
#include "cli/options/token_ids.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/load_display.h"
#include "distributed/logit_queue.h"
#include "model/batch.h"
#include "runtime/loaded_model.h"
#include "runtime/model_files.h"
#include "runtime/rank_process.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kLogitRows = 64;  // computed and written together
// In a pipeline, steps with this many tokens follow each other, each with its logits.
constexpr std::int64_t kStageTokens = 256;

// The steps, and the tokens that they compute.
struct Plan {
  std::vector<Token> tokens;
  std::int64_t vocab_size = 0;
  std::int64_t n_prefill = 0;
  std::int64_t chunk = 0;
  std::int64_t logit_rows = kLogitRows;  // rows in one call of the model
  std::optional<DraftTraceRun> drafts{};

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  // Returns the number of tokens in the step that begins at `position`.
  std::int64_t StepLength(std::int64_t position) const {
    const std::int64_t n = position < n_prefill ? std::min(chunk, n_prefill - position) : 1;
    return drafts ? drafts->EndOfStep(position, position + n) - position : n;
  }
};

Result<Plan> MakeLogitsPlan(const LogitsCommand& command, const ModelConfig& config) {
  Result<std::vector<Token>> tokens = ReadTokenIds(command.tokens, config.vocab_size);
  if (!tokens) return Unexpected(tokens.error());
  Plan plan = {.tokens = *std::move(tokens), .vocab_size = config.vocab_size};
  if (plan.n_tokens() > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--tokens: expected at most {}, the positions of this model, found {}",
                     config.max_position_embeddings, plan.n_tokens());
  }
  if (command.mtp && plan.n_tokens() < 2) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--mtp: expected at least 2 tokens, found 1: the MTP head needs the next one");
  }
  plan.n_prefill = command.n_prefill.value_or(plan.n_tokens());
  if (plan.n_prefill > plan.n_tokens()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--prefill: expected at most {}, the number of tokens, found {}",
                     plan.n_tokens(), plan.n_prefill);
  }
  if (!command.draft_at.empty()) {
    Result<std::vector<std::int64_t>> positions =
        ParseDraftPositions(command.draft_at, plan.n_tokens());
    if (!positions) return Unexpected(positions.error());
    plan.drafts.emplace(*std::move(positions), plan.tokens);
  }
  plan.chunk = std::clamp<std::int64_t>(command.chunk.value_or(plan.n_prefill), 1,
                                        std::max<std::int64_t>(plan.n_prefill, 1));
  return plan;
}

// With several steps, each with one set of logits, the stages work concurrently.
void SplitForStages(const LogitsCommand& command, Plan& plan) {
  if (command.run.ranks.n_stages > 1) {
    plan.chunk = command.chunk ? plan.chunk : std::min(plan.chunk, kStageTokens);
    plan.logit_rows = std::clamp(plan.chunk, kLogitRows, kStageTokens);
  }
}

Result<SafetensorsWriter> CreateFile(const LogitsCommand& command, const Plan& plan) {
  if (Status regular = CheckRegularOrNone(command.out); !regular)
    return Unexpected(regular.error());
  std::vector<SafetensorsWriter::Declaration> tensors = {
      {"logits", DType::kF32, {plan.n_tokens(), plan.vocab_size}}};
  if (command.mtp) {
    tensors.push_back({"mtp_logits", DType::kF32, {plan.n_tokens() - 1, plan.vocab_size}});
  }
  return SafetensorsWriter::Create(command.out, tensors);
}

std::span<const std::byte> LogitBytes(const Matrix<const float>& logits) {
  return std::as_bytes(std::span(logits.data, static_cast<std::size_t>(logits.rows * logits.cols)));
}

// Calls run(rows) with the rows [0, n_rows), a tile at a time.
template <class Run>
Status ForTiles(std::int64_t n_rows, std::int64_t tile, const Run& run) {
  std::vector<std::int32_t> rows;
  for (std::int64_t first = 0; first < n_rows; first += tile) {
    rows.resize(static_cast<std::size_t>(std::min(tile, n_rows - first)));
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first));
    if (Status ran = run(rows); !ran) return ran;
  }
  return {};
}

// Writes the MTP head's output for rows [0, n_rows) of the last step, which began at `position`.
Status WriteMtpRows(Model& model, const Plan& plan, std::int64_t position, std::int64_t n_rows,
                    RowSpool& spool) {
  if (n_rows == 0) return {};
  Batch next;
  next.Add(0, static_cast<std::int32_t>(position),
           std::span(plan.tokens)
               .subspan(static_cast<std::size_t>(position + 1), static_cast<std::size_t>(n_rows)));
  std::vector<std::int32_t> stream_rows;
  std::vector<DraftRequest> requests;
  for (std::int32_t row = 0; row < n_rows; ++row) {
    stream_rows.push_back(row);
    requests.push_back({.row = row, .n_drafts = 1});
  }
  const Status ran = model.drafter()->Commit(next, stream_rows, StreamSource::kForward);
  if (!ran) return ran;
  return model.drafter()->Propose(requests, {}, [&](const DraftLogits& found, std::span<Token>) {
    return spool.Append(LogitBytes(found.logits));
  });
}

// `writer`: null on ranks that compute for another rank, and if no logits are written. `spool`:
// null without the MTP head.
Status ComputeRows(Model& model, Plan& plan, Interrupt& interrupt, ExpertBalance& balance,
                   bool wants_logits, SafetensorsWriter* writer, RowSpool* spool) {
  LogitQueue logits(model, [&](Matrix<const float> rows) {
    return writer != nullptr ? writer->Append(LogitBytes(rows)) : Status();
  });
  Batch batch;
  for (std::int64_t position = 0; position < plan.n_tokens();) {
    if (interrupt.Take()) {
      return MakeError(ErrorCode::kIo, "interrupted after {} of {} tokens; nothing was written",
                       position, plan.n_tokens());
    }
    const std::int64_t n_rows = plan.StepLength(position);
    batch.Clear();
    batch.Add(0, static_cast<std::int32_t>(position),
              std::span(plan.tokens)
                  .subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(n_rows)));
    Status ran = logits.MakeRoom();
    if (ran) ran = model.Forward(batch);
    if (!ran) return ran;
    // Without a file of logits, no logits are computed.
    const Status started =
        ForTiles(wants_logits ? n_rows : 0, plan.logit_rows,
                 [&](std::span<const std::int32_t> rows) { return logits.Start(rows); });
    if (!started) return started;
    if (spool != nullptr) {
      const Status written = logits.FinishAll();  // the MTP head's logits need the slots
      if (!written) return written;
      // The last token of the text has no next token.
      const std::int64_t n_known = std::min(n_rows, plan.n_tokens() - 1 - position);
      const Status mtp_written = WriteMtpRows(model, plan, position, n_known, *spool);
      if (!mtp_written) return mtp_written;
    }
    if (plan.drafts) {
      const Status written = logits.FinishAll();  // the logits of drafts need the slots
      if (!written) return written;
      const Status drafted = plan.drafts->AfterStep(model, position, n_rows);
      if (!drafted) return drafted;
    }
    if (Status balanced = balance.AfterStep(n_rows); !balanced) return balanced;
    position += n_rows;
  }
  if (Status written = logits.FinishAll(); !written) return written;
  return balance.Finish();
}

Status CheckFiles(const LogitsCommand& command, const RankProcess& ranks) {
  const bool traces = !command.draft_at.empty();
  if (traces != !command.draft_trace.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--draft-at and --draft-trace: expected both or neither");
  }
  if (command.mtp && (traces || command.out.empty())) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--mtp: expected --out without --draft-at: a checkpoint has an MTP head or a "
                     "DSpark drafter");
  }
  if (traces && !ranks.is_alone()) {
    return MakeError(ErrorCode::kUnsupported, "--draft-at: expected one rank, found several");
  }
  return traces ? CheckRegularOrNone(command.draft_trace) : Status();
}

}  // namespace

Status RunCommand(const LogitsCommand& command, RankProcess& ranks, Log& log) {
  Interrupt interrupt;  // removes the unfinished file after Ctrl-C
  if (Status valid = CheckFiles(command, ranks); !valid) return valid;
  const Result<std::filesystem::path> directory = FindModel(command.run.model);
  if (!directory) return Unexpected(directory.error());
  const Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  Result<Plan> plan = MakeLogitsPlan(command, *config);
  if (!plan) return Unexpected(plan.error());
  Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  if (plan->drafts) {
    if (Status has = DraftTraceRun::CheckHead(*checkpoint); !has) return has;
  }
  const bool wants_logits = !command.out.empty();
  std::optional<SafetensorsWriter> writer;
  if (ranks.is_first() && wants_logits) {
    Result<SafetensorsWriter> created = CreateFile(command, *plan);
    if (!created) return Unexpected(created.error());
    writer = *std::move(created);
  }
  Result<RowSpool> spool = RowSpool::Create(command.out.parent_path());
  if (!spool) return Unexpected(spool.error());

  SplitForStages(command, *plan);
  LoadDisplay display(*directory, log);
  const Result<LoadedModel> loaded =
      LoadedModel::Load(*config, *std::move(checkpoint), command.run,
                        {.sizes = {.max_sequences = 1,
                                   .max_context = plan->n_tokens(),
                                   .max_batch_tokens = plan->chunk,
                                   .max_logit_rows = plan->logit_rows,
                                   .with_draft = command.mtp || plan->drafts}},
                        ranks, display.events());
  if (!loaded) return Unexpected(loaded.error());
  loaded->BindThread();
  if (plan->drafts) plan->drafts->Attach(loaded->model());
  const Status computed =
      ComputeRows(loaded->model(), *plan, interrupt, loaded->balance(), wants_logits,
                  writer ? &*writer : nullptr, command.mtp ? &*spool : nullptr);
  if (!computed) return computed;
  if (plan->drafts) {
    if (Status written = plan->drafts->Write(command.draft_trace); !written) return written;
  }
  if (!writer) return {};
  const Status copied =
      spool->Replay([&](std::span<const std::byte> bytes) { return writer->Append(bytes); });
  if (!copied) return copied;
  return writer->Finish();
}

}  // namespace fathom::cli
