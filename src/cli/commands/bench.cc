#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "cli/commands/commands.h"
#include "cli/options/report_format.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "engine/trace.h"
#include "kernels/profile.h"
#include "kernels/roofline.h"
#include "measure/bench/costs.h"
#include "measure/bench/report.h"
#include "measure/bench/row_spec.h"
#include "measure/bench/runner.h"
#include "runtime/backend_choice.h"
#include "runtime/loaded_model.h"
#include "runtime/model_files.h"
#include "runtime/rank_process.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// Returns the formulas for this checkpoint; logs where they differ from the tensors.
bench::ModelCosts MakeCosts(const Checkpoint& checkpoint, const ModelConfig& config,
                            const RankProcess& ranks, Log& log) {
  bench::ModelCosts costs(config, bench::FindStoredFormats(checkpoint));
  for (const std::string& difference : costs.Differences(checkpoint)) {
    if (ranks.is_first()) log.Warn("GB/s may be wrong: {}", difference);
  }
  return costs;
}

// The measurements of one rank.
struct Measured {
  double weight_bytes = 0;
  Roofline median;
  Roofline best;
};

// Adds up the measurements of all ranks, which measured at the same time.
Result<Measured> AddUp(const Measured& mine, Communicator& ranks) {
  const Result<std::vector<Measured>> all = ranks.GatherEach(mine);
  if (!all) return Unexpected(all.error());
  Measured sum;
  for (const Measured& one : *all) {
    sum.weight_bytes += one.weight_bytes;
    for (double Roofline::*const rate :
         {&Roofline::read_gb_s, &Roofline::fma_gflop_s, &Roofline::copy_gb_s}) {
      sum.median.*rate += one.median.*rate;
      sum.best.*rate += one.best.*rate;
    }
    for (double Roofline::*const time : {&Roofline::launch_us, &Roofline::graph_launch_us}) {
      sum.median.*time = std::max(sum.median.*time, one.median.*time);
      sum.best.*time = std::max(sum.best.*time, one.best.*time);
    }
  }
  return sum;
}

// Writes a track for each row and each kind of layer in it.
Status WriteTrace(const bench::Report& report, TraceWriter& trace) {
  const auto begin = TraceWriter::Clock::now();
  const auto moment = [begin](double seconds) {
    return begin + std::chrono::duration_cast<TraceWriter::Clock::duration>(
                       std::chrono::duration<double>(seconds));
  };
  std::vector<std::string> tracks;
  for (const bench::RowResult& row : report.rows) {
    if (!row.profile) continue;
    for (const ProfileEvent& event : row.profile->events) {
      if (event.name == kBetween) continue;  // gaps show this time
      const std::string name =
          fmt::format("{}{}{}", Name(row.row), event.part.empty() ? "" : ": ", event.part);
      const auto found = std::ranges::find(tracks, name);
      const std::int64_t track = found - tracks.begin();
      if (found == tracks.end()) {
        tracks.push_back(name);
        trace.NameTrack(track, name);
      }
      trace.Span(event.name, track, moment(event.start), moment(event.start + event.seconds));
    }
  }
  return trace.Close();
}

}  // namespace

Status RunCommand(const BenchCommand& command, RankProcess& ranks, Log& log) {
  const Result<std::filesystem::path> directory = FindModel(command.run.model);
  if (!directory) return Unexpected(directory.error());
  if (command.run.ranks.eplb_interval > 0 || !command.run.ranks.save_expert_placement.empty()) {
    return MakeError(ErrorCode::kUnsupported,
                     "--eplb-interval, --save-expert-placement: experts do not move while they are "
                     "measured; --expert-placement says where they are");
  }
  const Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  bench::Plan plan = command.plan;
  if (plan.rows.empty()) plan.rows = bench::DefaultRows(config->max_position_embeddings);
  const Status fits = bench::CheckRows(plan.rows, config->max_position_embeddings);
  if (!fits) return fits;
  const Status can_write = command.plot.empty() ? Status() : CheckCanWrite(command.plot);
  if (!can_write) return can_write;
  Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  const bench::ModelCosts costs = MakeCosts(*checkpoint, *config, ranks, log);

  LoadDisplay display(*directory, log);
  RunOptions run = command.run;
  run.can_profile = command.profile;
  run.memory_beside = command.bandwidth_mib * kMebibyte;
  std::unique_ptr<TraceWriter> trace;
  if (!command.trace.empty() && ranks.is_first()) {
    Result<std::unique_ptr<TraceWriter>> opened = TraceWriter::Open(command.trace);
    if (!opened) return Unexpected(opened.error());
    trace = *std::move(opened);
  }
  const Result<LoadedModel> loaded = LoadedModel::Load(
      *config, *std::move(checkpoint), run, {.sizes = OptionsFor(plan)}, ranks, display.events());
  if (!loaded) return Unexpected(loaded.error());
  loaded->BindThread();
  plan.ranks = loaded->ranks();
  const Result<Isa> isa = ChooseIsa(command.run);
  if (!isa) return Unexpected(isa.error());
  const Result<std::unique_ptr<RooflineProbe>> probe =
      loaded->backend().MakeRooflineProbe({.buffer_bytes = command.bandwidth_mib * kMebibyte,
                                           .huge_pages = command.run.weights.huge_pages});
  if (!probe) return Unexpected(probe.error());
  std::unique_ptr<Profiler> profiler;
  if (command.profile) {
    Result<std::unique_ptr<Profiler>> made = loaded->backend().MakeProfiler();
    if (!made) return Unexpected(made.error());
    profiler = *std::move(made);
    plan.profiler = profiler.get();
  }

  Result<std::vector<bench::RowResult>> rows = [&] {
    ProgressBar bar("measuring");
    return RunRows(
        loaded->model(), costs, plan, **probe, [&](std::size_t n_done, const bench::RowSpec& row) {
          log.Info("row {}", bench::Name(row));
          bar.Update(static_cast<double>(n_done) / static_cast<double>(plan.rows.size()));
        });
  }();
  if (!rows) return Unexpected(rows.error());
  const Result<Measured> measured =
      AddUp({.weight_bytes = static_cast<double>(loaded->model().weight_bytes()),
             .median = (*probe)->Median(),
             .best = (*probe)->Best()},
            ranks.all());
  if (!measured) return Unexpected(measured.error());
  if (!ranks.is_first()) return {};
  std::error_code ignored;  // a directory that was read has a name
  const bench::Report report = {
      .model = std::filesystem::canonical(*directory, ignored).filename().string(),
      .weight_gb = 1e-9 * measured->weight_bytes,
      .isa = std::string(Name(*isa)),
      .device = std::string(loaded->backend().OnHost() ? "" : loaded->backend().Name()),
      .n_ranks = ranks.all().size(),
      .n_threads = (*probe)->n_threads(),
      .page_bytes = (*probe)->page_bytes(),
      .chunk = plan.chunk,
      .n_repetitions = plan.n_repetitions,
      .roofline = measured->median,
      .best_roofline = measured->best,
      .n_rooflines = (*probe)->n_measurements(),
      .rows = *std::move(rows)};
  if (trace != nullptr) {
    if (Status written = WriteTrace(report, *trace); !written) return written;
  }
  if (!command.plot.empty()) {
    if (Status drawn = WriteFile(command.plot, ToSvg(report)); !drawn) return drawn;
  }
  return Print(Render(report, command.json  ? BenchFormat::kJson
                              : command.csv ? BenchFormat::kCsv
                                            : BenchFormat::kTable));
}

}  // namespace fathom::cli
