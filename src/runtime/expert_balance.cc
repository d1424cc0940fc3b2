#include "runtime/expert_balance.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "model/draft/drafters.h"
#include "runtime/checkpoint_fingerprint.h"

namespace fathom::runtime {
namespace {

// Returns the first option that needs ranks that share the experts; empty: none.
std::string_view FirstOption(const RankOptions& options) {
  if (options.eplb_interval > 0) return "--eplb-interval";
  if (!options.expert_placement.empty()) return "--expert-placement";
  return options.save_expert_placement.empty() ? "" : "--save-expert-placement";
}

// Sends a file of the first rank to all ranks.
Result<std::string> ReadForAll(Communicator& all, const std::filesystem::path& path) {
  std::string text;
  if (all.rank() == 0) {
    Result<std::string> read = ReadFile(path, kMostTableBytes, FileKind::kRegularOrPipe);
    if (!read) return Unexpected(read.error());
    text = *std::move(read);
  }
  std::array<std::uint64_t, 1> size = {text.size()};
  Status sent = all.Broadcast(0, std::as_writable_bytes(std::span(size)));
  text.resize(size[0]);
  if (sent) sent = all.Broadcast(0, std::as_writable_bytes(std::span(text)));
  if (!sent) return Unexpected(sent.error());
  return text;
}

void Report(const RebalanceReport& report, const RuntimeEvents& events) {
  events.Info(
      "experts balanced: busiest rank {:.3f} -> {:.3f} of the mean, {} experts of {} layers moved, "
      "{:.1f} MB beside {} steps, which waited {:.3f} s",
      report.imbalance_before, report.imbalance_after, report.n_moved_experts,
      report.n_moved_blocks, static_cast<double>(report.moved_bytes) / 1e6, report.n_steps,
      report.seconds);
  if (report.n_kept_blocks > 0) {
    events.Warn("experts of {} layers stay where they are: {}", report.n_kept_blocks,
                report.failure);
  }
}

}  // namespace

Result<ExpertBalance> ExpertBalance::Create(const RankOptions& options, const ModelRanks* ranks,
                                            const ModelConfig& config,
                                            const Checkpoint& checkpoint) {
  ExpertBalance balance;
  const std::string_view option = FirstOption(options);
  if (option.empty()) return balance;
  if (ranks == nullptr || ranks->shard.n_expert == 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected ranks that share the experts (--ep), found none", option);
  }
  balance.interval_ = options.eplb_interval;
  balance.file_ = options.save_expert_placement;
  balance.is_first_ = ranks->all->rank() == 0;
  const Result<std::string> model = ComputeContentFingerprint(checkpoint);
  if (!model) return Unexpected(model.error());
  balance.owner_ = {
      .model = *model, .n_blocks = NumBlocks(config), .counts = CountExperts(config, ranks->shard)};
  if (balance.is_first_ && !balance.file_.empty()) {
    const Status can_write = CheckCanWrite(balance.file_);
    if (!can_write) return Unexpected(can_write.error());
  }
  if (options.expert_placement.empty()) return balance;
  const Result<std::string> text = ReadForAll(*ranks->all, options.expert_placement);
  if (!text) return Unexpected(text.error());
  Result<BlockPlacements> placement =
      ParsePlacement(*text, options.expert_placement.string(), balance.owner_);
  if (!placement) return Unexpected(placement.error());
  balance.placement_ = *std::move(placement);
  return balance;
}

void ExpertBalance::Begin(Model& model, const RuntimeEvents& events) {
  model_ = &model;
  events_ = events;
  if (interval_ == 0) return;
  rebalancer_ = std::make_unique<ExpertRebalancer>(PlacedExperts::FindIn(model));
  schedule_ = std::make_unique<RebalanceSchedule>(
      *rebalancer_, interval_, [this](const RebalanceReport& report) { End(report); });
}

void ExpertBalance::End(const RebalanceReport& report) {
  is_new_ = true;
  if (!is_first_) return;
  Report(report, events_);
  if (on_end_) on_end_(report);
}

Status ExpertBalance::AfterStep(std::int64_t n_tokens) {
  if (!schedule_) return {};
  const Status moved = schedule_->AfterStep(n_tokens);
  if (!moved || !std::exchange(is_new_, false) || file_.empty()) return moved;
  const Result<std::string> text = GatherText();
  if (!text) return Unexpected(text.error());
  if (!is_first_) return {};
  const Status written = WriteFile(file_, *text);
  if (!written) events_.Warn("--save-expert-placement: {}", written.error().message);
  return {};
}

AfterForward ExpertBalance::Hook() {
  if (!schedule_) return {};
  return [this](std::int64_t n_tokens) { return AfterStep(n_tokens); };
}

Status ExpertBalance::Finish() {
  Status finished = schedule_ ? schedule_->Finish() : Status();
  if (!finished || file_.empty()) return finished;
  const Result<std::string> text = GatherText();
  if (!text) return Unexpected(text.error());
  return is_first_ ? WriteFile(file_, *text) : Status();
}

// Gathers the text of all stages.
Result<std::string> ExpertBalance::GatherText() const {
  const Result<BlockPlacements> placements = GatherPlacements(PlacedExperts::FindIn(*model_));
  if (!placements) return Unexpected(placements.error());
  return PlacementText(*placements, owner_);
}

}  // namespace fathom::runtime
