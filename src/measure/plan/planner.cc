#include "measure/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/integer_math.h"
#include "measure/plan/hardware.h"
#include "model/memory_plan.h"

namespace fathom::measure::plan {
namespace {

// Fills in one row.
class RowPlanner {
 public:
  RowPlanner(const ModelSizes& model, const Hardware& hardware, const Workload& workload,
             const ParallelLayout& layout)
      : model_(model), hardware_(hardware), workload_(workload) {
    row_.layout = layout;
    n_sequences_ = DivideUp(workload.concurrency, layout.n_replicas * layout.n_data);
  }

  PlannedLayout Make(const ExpertLoad& load) {
    if (const Status counts = CheckExperts(); !counts) {
      row_.problem = counts.error().message;
      return row_;
    }
    Weigh();
    StepTimes times(model_, hardware_, load, row_.layout, workload_.experts);
    row_.plain_imbalance = times.plain_imbalance();
    row_.imbalance = times.imbalance();
    const DecodeTime decoding = TimeOfDecoding(times);
    row_.token_time = decoding.parts;
    row_.token_seconds = decoding.seconds;
    row_.tokens_per_second = Throughput(decoding);
    row_.plain_tokens_per_second = row_.tokens_per_second;
    if (workload_.experts.n_redundant && row_.layout.n_expert() > 1) {
      StepTimes plain(model_, hardware_, load, row_.layout, {workload_.experts.exchange, {}});
      row_.plain_tokens_per_second = Throughput(TimeOfDecoding(plain));
    }
    Prefill(times);
    CountBytes();
    return row_;
  }

 private:
  std::int64_t Redundant() const {
    return row_.layout.n_expert() > 1 ? workload_.experts.n_redundant.value_or(0) : 0;
  }

  Status CheckExperts() const {
    const std::int64_t n_experts = model_.config().n_routed_experts;
    return CheckCounts({.n_logical = n_experts,
                        .n_physical = n_experts + Redundant(),
                        .n_ranks = row_.layout.n_expert()});
  }

  // Returns the most sequences per data rank for whose caches a stage has room.
  std::int64_t SequencesIn(double room, const ModelShard& share) const {
    const auto fits = [&](std::int64_t n) {
      return static_cast<double>(model_.CacheBytes(share, n, workload_.context)) <= room;
    };
    std::int64_t most = 0, too_many = 1;
    constexpr std::int64_t kEnd = std::int64_t{1} << 30;
    for (; too_many < kEnd && fits(too_many); too_many *= 2) most = too_many;
    while (too_many - most > 1) {
      const std::int64_t middle = most + (too_many - most) / 2;
      (fits(middle) ? most : too_many) = middle;
    }
    return most;
  }

  // Describes how many experts of a stage whose weights do not fit would stay on a device, as
  // loading would plan it. Returns an empty text if the stage does not fit even without experts.
  std::string DescribeExperts(int stage, std::int64_t caches, std::int64_t memory) const {
    MemoryNeeds needs = model_.NeedsOfRank(row_.layout, stage, Redundant());
    needs.activations = row_.workspace;
    needs.caches = caches;
    const Result<MemoryPlan> plan = PlanMemory(std::move(needs), memory, HostExpertChoice::kAuto);
    if (!plan) return {};
    return fmt::format("; a GPU with --experts {} would have {} of {} experts",
                       plan->places.host_computes ? "cpu" : "gpu", plan->n_on_device(),
                       plan->n_experts());
  }

  void Weigh() {
    const ParallelLayout& layout = row_.layout;
    const double memory = hardware_.device.memory_bytes - hardware_.device.reserved_bytes;
    row_.workspace =
        model_.WorkspaceOfRank(layout, std::max(workload_.chunk, n_sequences_), n_sequences_);
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::int64_t heaviest = -1;
    for (int stage = 0; stage < layout.n_stages; ++stage) {
      const ModelShard share = model_.StageShard(layout, stage);
      const std::int64_t weights = model_.WeightsOfRank(layout, stage, Redundant());
      const std::int64_t caches = model_.CacheBytes(share, n_sequences_, workload_.context);
      const double room = memory - static_cast<double>(weights + row_.workspace);
      most = std::min(most, room > 0 ? SequencesIn(room, share) : 0);
      if (weights + caches > heaviest) {
        heaviest = weights + caches;
        row_.weights = weights;
        row_.caches = caches;
      }
      if (room < 0 && row_.problem.empty()) {
        row_.problem = fmt::format(
            "memory: {:.1f} GB for weights and {:.1f} GB for activations of {:.1f} GB{}",
            Number(weights) / kGiga, Number(row_.workspace) / kGiga, memory / kGiga,
            DescribeExperts(stage, caches, static_cast<std::int64_t>(memory)));
      }
    }
    row_.most_sequences = most * layout.n_data * layout.n_replicas;
    if (row_.problem.empty() && most < n_sequences_) {
      row_.problem = fmt::format("memory: caches for {} of {} sequences", row_.most_sequences,
                                 workload_.concurrency);
    }
  }

  struct DecodeTime {
    StageTime parts;     // the sum over all stages
    double seconds = 0;  // from one token of a sequence to the next
  };

  double Throughput(const DecodeTime& time) const {
    return static_cast<double>(workload_.concurrency) / time.seconds;
  }

  // Returns the number of parts of a batch that are in flight, and the tokens of one part.
  std::int64_t DecodeParts() const {
    const std::int64_t wanted =
        workload_.micro_batches > 0 ? workload_.micro_batches : row_.layout.n_stages;
    return std::min(wanted, n_sequences_);
  }
  std::int64_t DecodeTokens() const { return DivideUp(n_sequences_, DecodeParts()); }

  // Every part of the batch passes all stages; a stage runs one part after the other.
  DecodeTime TimeOfDecoding(StepTimes& times) const {
    const std::int64_t n_parts = DecodeParts();
    const std::int64_t n_tokens = DecodeTokens();
    const StepWork work = {.n_tokens = n_tokens,
                           .n_sequences = n_tokens,
                           .position = workload_.context - 1,
                           .last_position = workload_.context - 1,
                           .n_logit_rows = n_tokens,
                           .n_data = row_.layout.n_data};
    DecodeTime decoding;
    double slowest = 0;
    for (int stage = 0; stage < row_.layout.n_stages; ++stage) {
      const StageTime time = times.Compute(stage, work);
      decoding.parts += time;
      slowest = std::max(slowest, time.Total());
    }
    decoding.seconds = std::max(decoding.parts.Total(), static_cast<double>(n_parts) * slowest);
    return decoding;
  }

  struct PromptTime {
    double first_token = 0;  // seconds
    double busy = 0;         // time of the slowest stage
  };

  // Chunks follow each other through the stages; only the first finds all of them empty.
  PromptTime TimePrompt(StepTimes& times, int n_data) const {
    PromptTime total;
    for (std::int64_t first = 0; first < workload_.prompt; first += workload_.chunk) {
      const std::int64_t n = std::min(workload_.chunk, workload_.prompt - first);
      const bool is_last = first + n == workload_.prompt;
      const StepWork work = {.n_tokens = n,
                             .position = first + n / 2,
                             .last_position = first + n - 1,
                             .n_logit_rows = is_last ? 1 : 0,
                             .n_data = n_data};
      double sum = 0, slowest = 0;
      for (int stage = 0; stage < row_.layout.n_stages; ++stage) {
        const double seconds = times.Compute(stage, work).Total();
        sum += seconds;
        slowest = std::max(slowest, seconds);
      }
      total.busy += slowest;
      total.first_token += first == 0 ? sum : slowest;
    }
    return total;
  }

  void Prefill(StepTimes& times) {
    const int n_data = row_.layout.n_data;
    row_.first_token_seconds = TimePrompt(times, 1).first_token;
    row_.prompt_tokens_per_second =
        static_cast<double>(workload_.prompt * row_.layout.n_replicas * n_data) /
        TimePrompt(times, n_data).busy;
  }

  void CountBytes() {
    const StepTokens step = {.n_tokens = DecodeTokens(), .position = workload_.context - 1};
    const auto bytes = [&](ExpertPath path) {
      return BytesPerToken(model_.config(), row_.layout, path, step);
    };
    row_.wire = bytes(workload_.experts.exchange);
    row_.gathered_expert_bytes = bytes(ExpertPath::kGather).experts;
    row_.fused_expert_bytes = bytes(ExpertPath::kFused).experts;
    row_.step_bytes = row_.wire.Total() * static_cast<double>(n_sequences_ * row_.layout.n_data);
  }

  const ModelSizes& model_;
  const Hardware& hardware_;
  const Workload& workload_;
  std::int64_t n_sequences_ = 1;  // sequences of a data rank
  PlannedLayout row_;
};

bool IsBefore(const PlannedLayout& a, const PlannedLayout& b) {
  return std::tuple(!a.fits(), -a.tokens_per_second, a.first_token_seconds) <
         std::tuple(!b.fits(), -b.tokens_per_second, b.first_token_seconds);
}

Status CheckWorkload(const ModelConfig& config, const Workload& workload) {
  if (workload.context > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context: expected at most {} (positions of the model), found {}",
                     config.max_position_embeddings, workload.context);
  }
  if (workload.prompt > workload.context) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--prompt: expected at most {} (--context), found {}", workload.context,
                     workload.prompt);
  }
  return {};
}

}  // namespace

const PlannedLayout* PlannedLayouts::Recommended() const {
  const auto row = std::find_if(rows.begin(), rows.end(), [](const PlannedLayout& candidate) {
    return candidate.fits() && !candidate.layout.is_estimate();
  });
  return row == rows.end() ? nullptr : &*row;
}

Result<PlannedLayouts> PlanLayouts(const ModelSizes& model, const Hardware& hardware,
                                   const ExpertLoad& load, const Workload& workload) {
  if (const Status checked = CheckWorkload(model.config(), workload); !checked) {
    return Unexpected(checked.error());
  }
  PlannedLayouts plan = {.hardware = hardware, .workload = workload, .rows = {}};
  const auto row_of = [&](const ParallelLayout& layout) {
    return RowPlanner(model, hardware, workload, layout).Make(load);
  };
  for (const ParallelLayout& layout : LegalLayouts(model.config(), hardware.n_devices())) {
    const std::optional<ParallelLayout> divided = WithDividedRows(model.config(), layout);
    if (divided && workload.decode_context_parallel) {
      plan.rows.push_back(row_of(*divided));
      continue;
    }
    plan.rows.push_back(row_of(layout));
    if (divided && !plan.rows.back().fits()) {
      if (PlannedLayout row = row_of(*divided); row.fits()) plan.rows.back() = std::move(row);
    }
  }
  std::stable_sort(plan.rows.begin(), plan.rows.end(), IsBefore);
  return plan;
}

}  // namespace fathom::measure::plan
