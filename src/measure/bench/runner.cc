#include "measure/bench/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "base/check.h"
#include "comm/communicator.h"
#include "distributed/logit_queue.h"
#include "model/batch.h"

namespace fathom::measure::bench {
namespace {

constexpr std::uint64_t kSeed = 20;  // arbitrary; for tokens and caches

// Counts the different experts of every layer of every step.
class ExpertCounter {
 public:
  explicit ExpertCounter(std::int64_t n_experts)
      : last_seen_(static_cast<std::size_t>(n_experts)) {}

  void Add(Matrix<const std::int32_t> ids) {
    ++n_layers_;
    for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
      std::int64_t& last = last_seen_[static_cast<std::size_t>(ids.data[i])];
      n_different_ += last == n_layers_ ? 0 : 1;
      last = n_layers_;
    }
  }
  // Returns the sum over all layers of all steps.
  double n_different() const { return static_cast<double>(n_different_); }
  double per_layer() const {
    return n_layers_ == 0 ? 0 : n_different() / static_cast<double>(n_layers_);
  }

 private:
  std::vector<std::int64_t> last_seen_;  // by expert: the layer (counted from 1) that chose it last
  std::int64_t n_layers_ = 0;
  std::int64_t n_different_ = 0;
};

// Returns the number of groups of sequences: a pipeline decodes with one step in flight per stage,
// like the engine.
std::int64_t CountGroups(const ModelRanks* ranks, const RowSpec& row) {
  const std::int64_t n_stages = ranks != nullptr ? ranks->shard.n_stages : 1;
  return row.kind == RowSpec::Kind::kDecode ? std::min(n_stages, row.n_sequences) : 1;
}

// Runs one row repeatedly. Allocates only in its constructor.
class RowRunner {
 public:
  RowRunner(Model& model, const RowSpec& row, const Plan& plan)
      : model_(model), row_(row), chunk_(plan.chunk), n_groups_(CountGroups(plan.ranks, row)) {
    std::mt19937_64 random(kSeed);
    tokens_.resize(static_cast<std::size_t>(row.n_total()));
    for (Token& token : tokens_) {
      token = static_cast<Token>(random() % static_cast<std::uint64_t>(model.config().vocab_size));
    }
    batch_.Reserve(model.options().max_batch_tokens, row.n_sequences);
    last_rows_.resize(static_cast<std::size_t>(row.n_sequences));
    std::iota(last_rows_.begin(), last_rows_.end(), 0);
  }

  // Puts every sequence at its depth.
  Status Prepare() {
    for (std::int64_t sequence = 0; row_.depth > 0 && sequence < row_.n_sequences; ++sequence) {
      const Status filled = model_.FillCache(static_cast<std::int32_t>(sequence), row_.depth,
                                             kSeed + 1000 * static_cast<std::uint64_t>(sequence));
      if (!filled) return filled;
    }
    return {};
  }

  Status Run() {
    LogitQueue logits(model_, [](Matrix<const float>) { return Status(); });
    for (std::int64_t first = 0; first < row_.n_tokens; first += StepTokens(first)) {
      for (std::int64_t group = 0; group < n_groups_; ++group) {
        if (Status ran = Step(first, Group(group), logits); !ran) return ran;
      }
    }
    return logits.FinishAll();
  }

  // Returns the cost of one run without its routed experts' bytes.
  Cost RunCost(const ModelCosts& costs) const {
    Cost total;
    const Cost routed = costs.RoutedPerToken();
    for (std::int64_t first = 0; first < row_.n_tokens; first += StepTokens(first)) {
      for (std::int64_t i = 0; i < n_groups_; ++i) {
        const Piece group = Group(i);
        const std::int64_t n_tokens = StepTokens(first) * group.count;
        total += costs.Dense(n_tokens, NeedsLogits(first) ? group.count : 0);
        total.flops += routed.flops * static_cast<double>(n_tokens);
      }
      for (std::int64_t i = 0; i < StepTokens(first); ++i) {
        const Cost attention = costs.Attention(row_.depth + first + i);
        const auto n = static_cast<double>(row_.n_sequences);
        total +=
            {row_.kind == RowSpec::Kind::kDecode ? n * attention.bytes : 0, n * attention.flops};
      }
    }
    return total;
  }

 private:
  // Returns the tokens of each sequence in the step that begins with its token `first`.
  std::int64_t StepTokens(std::int64_t first) const {
    return row_.kind == RowSpec::Kind::kDecode ? 1 : std::min(chunk_, row_.n_tokens - first);
  }
  // Decoding needs the logits of every token, prefill only the logits of its last token.
  bool NeedsLogits(std::int64_t first) const {
    return row_.kind == RowSpec::Kind::kDecode || first + StepTokens(first) == row_.n_tokens;
  }
  // Returns the sequences of a group.
  Piece Group(std::int64_t group) const {
    const std::int64_t first = group * row_.n_sequences / n_groups_;
    return {first, (group + 1) * row_.n_sequences / n_groups_ - first};
  }

  // Runs a step for the sequences of a group, from their token `first` on.
  Status Step(std::int64_t first, Piece group, LogitQueue& logits) {
    if (Status room = logits.MakeRoom(); !room) return room;
    batch_.Clear();
    for (std::int64_t sequence = group.first; sequence < group.first + group.count; ++sequence) {
      batch_.Add(static_cast<std::int32_t>(sequence), static_cast<std::int32_t>(row_.depth + first),
                 std::span<const Token>(tokens_).subspan(
                     static_cast<std::size_t>(sequence * row_.n_tokens + first),
                     static_cast<std::size_t>(StepTokens(first))));
    }
    if (Status ran = model_.Forward(batch_); !ran) return ran;
    if (!NeedsLogits(first)) return {};
    // Prefill has one sequence and needs the logits of its last token.
    last_rows_.front() = static_cast<std::int32_t>(StepTokens(first) - 1);
    return logits.Start(std::span(last_rows_).first(static_cast<std::size_t>(group.count)));
  }

  Model& model_;
  const RowSpec row_;
  const std::int64_t chunk_;
  const std::int64_t n_groups_;
  std::vector<Token> tokens_;            // [n_sequences, n_tokens]
  std::vector<std::int32_t> last_rows_;  // last row of each sequence of a step
  Batch batch_;
};

// Waits until all ranks of the model have called this function, so that no measured time contains a
// wait for another rank.
Status MeetRanks(const ModelRanks* ranks) {
  return ranks != nullptr ? ranks->all->Barrier() : Status();
}

// Adds the counts of all stages, each of which counts its own layers.
Result<double> SumOfStages(const ModelRanks* ranks, double counted) {
  if (ranks == nullptr || ranks->shard.n_stages == 1) return counted;
  const Result<std::vector<double>> all = ranks->stages->GatherEach(counted);
  if (!all) return Unexpected(all.error());
  return std::accumulate(all->begin(), all->end(), 0.0);
}

Result<double> TimeOnce(RowRunner& runner, const ModelRanks* ranks) {
  if (Status prepared = runner.Prepare(); !prepared) return Unexpected(prepared.error());
  if (Status met = MeetRanks(ranks); !met) return Unexpected(met.error());
  const auto start = std::chrono::steady_clock::now();
  const Status ran = runner.Run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!ran) return Unexpected(ran.error());
  return seconds.count();
}

// Returns the kind of a layer. Layers of one kind have equal costs.
std::string KindOfLayer(const ModelConfig& config, std::int64_t layer) {
  return fmt::format("{}, ratio {}", layer < config.num_hash_layers ? "hash" : "learned",
                     config.compress_ratios[static_cast<std::size_t>(layer)]);
}

// Runs the row once more, under the profiler; the preparation is not profiled.
Result<Profile> ProfileOnce(RowRunner& runner, Model& model, Profiler& profiler) {
  if (Status prepared = runner.Prepare(); !prepared) return Unexpected(prepared.error());
  if (Status started = profiler.Start(); !started) return Unexpected(started.error());
  model.ObserveLayers([&](std::optional<std::int64_t> layer) {
    profiler.EnterPart(layer ? KindOfLayer(model.config(), *layer) : std::string());
  });
  const Status ran = runner.Run();
  model.ObserveLayers({});
  Result<Profile> profile = profiler.Stop();
  if (!ran) return Unexpected(ran.error());
  return profile;
}

Result<RowResult> RunRow(Model& model, const ModelCosts& costs, const RowSpec& row,
                         const Plan& plan, RooflineProbe& probe) {
  RowRunner runner(model, row, plan);
  ExpertCounter experts(model.config().n_routed_experts);
  model.ObserveRouting([&](Matrix<const std::int32_t> ids) { experts.Add(ids); });
  const Result<double> warm_up = TimeOnce(runner, plan.ranks);
  model.ObserveRouting({});
  if (!warm_up) return Unexpected(warm_up.error());

  const auto n_tokens = static_cast<double>(row.n_total());
  std::vector<double> tok_s;
  for (int i = 0; i < plan.n_repetitions; ++i) {
    if (const Result<Roofline> limits = probe.Measure(); !limits) {
      return Unexpected(limits.error());
    }
    const Result<double> seconds = TimeOnce(runner, plan.ranks);
    if (!seconds) return Unexpected(seconds.error());
    tok_s.push_back(n_tokens / *seconds);
  }
  const Result<double> n_different = SumOfStages(plan.ranks, experts.n_different());
  if (!n_different) return Unexpected(n_different.error());
  const Cost cost = runner.RunCost(costs);
  std::optional<Profile> profile;
  if (plan.profiler != nullptr) {
    Result<Profile> taken = ProfileOnce(runner, model, *plan.profiler);
    if (!taken) return Unexpected(taken.error());
    profile = *std::move(taken);
  }
  return RowResult{.row = row,
                   .tok_s = ComputeSpread(std::move(tok_s)),
                   .gb_per_token = 1e-9 * (cost.bytes + costs.RoutedBytes(*n_different)) / n_tokens,
                   .gflop_per_token = 1e-9 * cost.flops / n_tokens,
                   .experts_per_layer = experts.per_layer(),
                   .profile = std::move(profile)};
}

}  // namespace

Spread ComputeSpread(std::vector<double> values) {
  Check(!values.empty(), "the spread of no values");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return {
      .min = values.front(),
      .median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2,
      .max = values.back()};
}

ModelOptions OptionsFor(const Plan& plan) {
  ModelOptions options = {
      .max_sequences = 1, .max_context = 1, .max_batch_tokens = 1, .max_logit_rows = 1};
  for (const RowSpec& row : plan.rows) {
    options.max_sequences = std::max(options.max_sequences, row.n_sequences);
    options.max_context = std::max(options.max_context, row.n_positions());
    options.max_batch_tokens = std::max(
        options.max_batch_tokens,
        row.kind == RowSpec::Kind::kPrefill ? std::min(plan.chunk, row.n_tokens) : row.n_sequences);
  }
  options.max_logit_rows = options.max_sequences;
  return options;
}

Result<std::vector<RowResult>> RunRows(Model& model, const ModelCosts& costs, const Plan& plan,
                                       RooflineProbe& probe, const RowProgress& progress) {
  Check(plan.n_repetitions >= 1 && plan.chunk >= 1, "a benchmark without repetitions");
  std::vector<RowResult> results;
  for (const RowSpec& row : plan.rows) {
    if (progress) {
      progress(results.size(), row);
    }
    const Result<RowResult> result = RunRow(model, costs, row, plan, probe);
    if (!result) return Unexpected(result.error());
    results.push_back(*result);
  }
  if (const Result<Roofline> limits = probe.Measure(); !limits) return Unexpected(limits.error());
  return results;
}

}  // namespace fathom::measure::bench
