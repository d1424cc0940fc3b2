#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "api/common/request_runner.h"
#include "cli/answer_form.h"
#include "cli/batch/batch_output.h"
#include "cli/batch/batch_run.h"
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "engine/engine.h"
#include "runtime/model_files.h"
#include "runtime/runtime.h"

namespace fathom::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kReportTime = std::chrono::milliseconds(100);

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the message for a run that did not finish. Only a stop by Ctrl-C has no message yet.
Error HowToGoOn(const Error& error, const std::string& output) {
  if (error.code != ErrorCode::kUnavailable) return error;
  const std::string reason = error.message.empty() ? "stopped" : error.message;
  return {error.code,
          output == "-" ? reason : fmt::format("{}; the same command goes on from there", reason)};
}

Status RunAll(std::string_view input, const BatchPlan& plan, BatchRun& run, Interrupt& interrupt) {
  const Clock::time_point start = Clock::now();
  Clock::time_point next_report = start;
  ProgressBar bar("batch");
  const Status status = run.Run(input, [&](const BatchTotals& totals) {
    if (Clock::now() >= next_report) {
      next_report = Clock::now() + kReportTime;
      const double n_open = static_cast<double>(std::max<std::int64_t>(plan.n_open, 1));
      bar.Update(static_cast<double>(totals.n_done) / n_open,
                 BatchProgress(totals, plan.n_open, SecondsSince(start)));
    }
    return !interrupt.Take();
  });
  bar.Clear();
  PrintError(fmt::format("fathom: {}\n", BatchSummary(run.totals(), plan, SecondsSince(start))));
  return status;
}

}  // namespace

Status RunCommand(const BatchCommand& command, RankProcess& ranks, Log& log) {
  const Result<ModelFiles> files = ModelFiles::Read(command.run.model);
  if (!files) return Unexpected(files.error());
  const Result<std::int64_t> n_context = ContextLength(command.run, kDefaultContext, files->config);
  if (!n_context) return Unexpected(n_context.error());
  Result<ApiModel> api = MakeApiModel(command, *n_context, kMaxChoices, *files, log);
  if (!api) return Unexpected(api.error());
  const Result<ContentForm> form = ReadAnswerForm(command.form);
  if (!form) return Unexpected(form.error());
  const auto constraint = CompileAnswerForm(*form, api->compile_constraint, log);
  if (!constraint) return Unexpected(constraint.error());
  api->defaults.form = *form;
  const Result<std::string> input = ReadInput(command.input, kMostBatchBytes);
  if (!input) return Unexpected(input.error());
  Result<BatchOutput> output = BatchOutput::Open(command.output, command.input);
  if (!output) return Unexpected(output.error());
  const BatchPlan plan = PlanBatch(*input, *output);
  if (plan.n_open == 0) {
    PrintError(fmt::format("fathom: {}\n", BatchSummary({}, plan, 0)));
    return {};
  }

  Interrupt interrupt;
  RuntimeOptions options = {.run = command.run, .serving = command.engine, .ranks = &ranks};
  options.run.n_context = *n_context;
  if (ranks.is_alone()) options.run.memory_beside = api->constraint_memory().limit;
  // Enough that another sequence can follow as soon as one ends; more would only use memory before
  // their turn.
  options.serving.max_waiting = 2 * command.engine.max_sequences;
  LoadDisplay display(files->directory, log, &interrupt);
  options.events = display.events();
  const Result<std::unique_ptr<Runtime>> runtime = Runtime::Load(*files, options);
  if (!runtime) return Unexpected(runtime.error());
  EngineRunner runner((*runtime)->engine());
  BatchRun run(*api, runner, *output, SystemRandomBits());
  const Status status = RunAll(*input, plan, run, interrupt);
  if (!status) return Unexpected(HowToGoOn(status.error(), command.output));
  return {};
}

}  // namespace fathom::cli
