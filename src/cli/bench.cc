#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "benchmark/costs.h"
#include "benchmark/plot.h"
#include "benchmark/report.h"
#include "benchmark/row_spec.h"
#include "benchmark/runner.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "cli/backend_choice.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/report_format.h"
#include "cli/session.h"
#include "kernels/roofline.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

Result<benchmark::Plan> MakePlan(const BenchCommand& command, const ModelConfig& config) {
  benchmark::Plan plan = {.n_repetitions = command.n_repetitions, .chunk = command.chunk};
  if (command.rows.empty()) {
    plan.rows = benchmark::DefaultRows(config.max_position_embeddings);
    return plan;
  }
  Result<std::vector<benchmark::RowSpec>> rows = benchmark::ParseRows(command.rows);
  if (!rows) return Unexpected(rows.error());
  plan.rows = *std::move(rows);
  const Status fits = benchmark::CheckRows(plan.rows, config.max_position_embeddings);
  if (!fits) return Unexpected(fits.error());
  return plan;
}

// The formulas for this checkpoint; the log is told where they are not what the tensors are.
Result<benchmark::ModelCosts> MakeCosts(const std::filesystem::path& directory,
                                        const ModelConfig& config, Log& log) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  benchmark::ModelCosts costs(config, benchmark::FindStoredFormats(*checkpoint));
  for (const std::string& difference : costs.Differences(*checkpoint)) {
    log.Warn("GB/s may be wrong: {}", difference);
  }
  return costs;
}

}  // namespace

Status RunBench(const BenchCommand& command, Log& log) {
  const Result<std::filesystem::path> directory = FindModel(command.run.model);
  if (!directory) return Unexpected(directory.error());
  const Result<ModelConfig> config = ReadModelConfig(*directory / "config.json");
  if (!config) return Unexpected(config.error());
  const Result<benchmark::Plan> plan = MakePlan(command, *config);
  if (!plan) return Unexpected(plan.error());
  const Status can_write = command.plot.empty() ? Status() : CheckCanWrite(command.plot);
  if (!can_write) return can_write;
  const Result<benchmark::ModelCosts> costs = MakeCosts(*directory, *config, log);
  if (!costs) return Unexpected(costs.error());

  const Result<Session> session =
      Session::Load(*directory, command.run, OptionsFor(*plan), {}, log);
  if (!session) return Unexpected(session.error());
  BindModelThread(session->processors(), log);
  const Result<Isa> isa = ChooseIsa(command.run);
  if (!isa) return Unexpected(isa.error());
  const Result<std::unique_ptr<RooflineProbe>> probe =
      RooflineProbe::Create({.isa = *isa,
                             .n_threads = command.run.n_threads,
                             .buffer_bytes = command.bandwidth_mib * kMebibyte,
                             .huge_pages = command.run.weights.huge_pages,
                             .processors = session->processors()});
  if (!probe) return Unexpected(probe.error());

  Result<std::vector<benchmark::RowResult>> rows = [&] {
    ProgressBar bar("measuring");
    return RunRows(
        session->model(), *costs, *plan, **probe,
        [&](std::size_t n_done, const benchmark::RowSpec& row) {
          log.Info("row {}", benchmark::Name(row));
          bar.Update(static_cast<double>(n_done) / static_cast<double>(plan->rows.size()));
        });
  }();
  if (!rows) return Unexpected(rows.error());
  std::error_code ignored;  // a directory that was read has a name
  const benchmark::Report report = {
      .model = std::filesystem::canonical(*directory, ignored).filename().string(),
      .weight_gb = 1e-9 * static_cast<double>(session->model().weight_bytes()),
      .isa = std::string(Name(*isa)),
      .n_threads = (*probe)->options().n_threads,
      .page_bytes = (*probe)->page_bytes(),
      .chunk = plan->chunk,
      .n_repetitions = plan->n_repetitions,
      .roofline = (*probe)->Median(),
      .best_roofline = (*probe)->Best(),
      .n_rooflines = (*probe)->n_measurements(),
      .rows = *std::move(rows)};
  if (!command.plot.empty()) {
    const Status drawn = WriteWholeFile(command.plot, ToSvg(report));
    if (!drawn) return drawn;
  }
  return Print(Render(report, command.format));
}

}  // namespace fathom::cli
