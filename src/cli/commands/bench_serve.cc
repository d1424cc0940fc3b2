// Implements `fathom bench serve`: runs the levels of a load one after another, and reports them.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/integer_math.h"
#include "cli/commands/commands.h"
#include "cli/options/report_format.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "measure/load/load_report.h"
#include "measure/load/load_runner.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kDefaultRequests = 100;

// Raises the limit of descriptors: a running request needs three, and systems allow 1024 by
// default. If the system does not allow more, requests fail with that error.
void AllowManyDescriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Result<std::string> ReadKey(const BenchServeCommand& command) {
  if (command.api_key_file.empty()) return command.target.api_key;
  Result<std::string> text = ReadInput(command.api_key_file.string(), kMostSettingsBytes);
  if (!text) return text;
  const std::size_t end = std::min(text->find_first_of("\r\n"), text->size());
  if (end == 0) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a key on the first line, found none",
                     command.api_key_file.string());
  }
  return text->substr(0, end);
}

Result<load::LoadTarget> MakeTarget(const BenchServeCommand& command) {
  Result<std::string> url = ParseServerUrl(command.url);
  if (!url) return Unexpected(url.error());
  // Clients of OpenAI's API write a server's URL with this end; here the paths of requests begin
  // with it.
  constexpr std::string_view kVersion = "/v1";
  if (url->ends_with(kVersion)) url->resize(url->size() - kVersion.size());
  const Result<std::string> key = ReadKey(command);
  if (!key) return Unexpected(key.error());
  load::LoadTarget target = command.target;
  target.url = *url;
  target.api_key = *key;
  target.limits.request_time = std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(command.request_timeout));
  if (target.model.empty()) {
    const Result<std::string> model = load::FetchFirstModel(target);
    if (!model) return Unexpected(model.error());
    target.model = *model;
  }
  return target;
}

std::vector<load::LoadLevel> MakeLevels(const BenchServeCommand& command) {
  std::vector<load::LoadLevel> levels;
  for (const double rate : command.rates) {
    levels.push_back({.rate = rate, .arrival = command.arrival});
  }
  for (const int concurrency : command.concurrency) {
    levels.push_back({.concurrency = concurrency});
  }
  if (levels.empty()) levels.emplace_back();
  return levels;
}

// Returns the number of conversations of a level; none if only the time ends it.
std::optional<std::int64_t> CountConversations(const BenchServeCommand& command) {
  if (!command.n_requests && command.seconds) return std::nullopt;
  const std::int64_t n_requests = command.n_requests.value_or(kDefaultRequests);
  return DivideUp(n_requests, command.workload.n_turns);
}

// Returns 0 to 1, by the limit that ends the level first.
double ProgressShare(const load::LoadJob& job, const load::LoadProgress& progress) {
  const double by_time = job.seconds ? progress.time_s / *job.seconds : 0;
  const double n_requests =
      static_cast<double>(job.n_conversations.value_or(0) * job.workload.n_turns);
  const double by_count = n_requests > 0 ? static_cast<double>(progress.n_done) / n_requests : 0;
  return std::max(by_time, by_count);
}

load::LoadResult RunLevel(const load::LoadJob& job, const std::string& label,
                          Interrupt& interrupt) {
  ProgressBar bar(label);
  return load::RunLoad(job, [&](const load::LoadProgress& progress) {
    bar.Update(ProgressShare(job, progress));
    return !interrupt.Take();
  });
}

// Runs the warm-up and fills in the levels.
void RunLevels(const BenchServeCommand& command, load::LoadJob job, Interrupt& interrupt,
               load::LoadReport* report, Log& log) {
  if (command.n_warmup > 0) {
    job.n_conversations = command.n_warmup;
    job.level = {.concurrency = static_cast<int>(std::min<std::int64_t>(command.n_warmup, 8))};
    const load::LoadResult warmup = RunLevel(job, "warming up", interrupt);
    job.first_conversation += warmup.n_begun;
    if (warmup.interrupted) {
      report->interrupted = true;
      return;
    }
  }
  job.n_conversations = CountConversations(command);
  job.seconds = command.seconds;
  for (const load::LoadLevel& level : MakeLevels(command)) {
    log.Info("level {}", level.Name());
    job.level = level;
    const load::LoadResult result = RunLevel(job, level.Name(), interrupt);
    job.first_conversation += result.n_begun;
    report->levels.push_back({level, Summarize(result, report->objectives)});
    report->interrupted = result.interrupted;
    if (result.interrupted) return;
  }
}

// Returns an error if no request of any level was answered: there are no figures to report.
Status CheckAnswered(const load::LoadReport& report) {
  const load::FailureCount* failure = nullptr;
  for (const auto& [level, summary] : report.levels) {
    if (summary.n_successful > 0) return {};
    if (!summary.failures.empty()) failure = &summary.failures.front();
  }
  if (failure == nullptr) return {};
  return MakeError(ErrorCode::kIo, "no request was answered: {}: {}", failure->failure,
                   failure->message);
}

}  // namespace

Status RunCommand(const BenchServeCommand& command, Log& log) {
  const Status can_write = command.plot.empty() ? Status() : CheckCanWrite(command.plot);
  if (!can_write) return can_write;
  const Result<load::LoadTarget> target = MakeTarget(command);
  if (!target) return Unexpected(target.error());

  load::LoadReport report = {.url = command.url,
                             .model = target->model,
                             .endpoint = target->endpoint,
                             .workload = command.workload,
                             .objectives = command.objectives};
  AllowManyDescriptors();
  Interrupt interrupt;  // before the threads of the load start
  RunLevels(command, {.target = *target, .workload = command.workload}, interrupt, &report, log);
  if (Status answered = CheckAnswered(report); !answered) return answered;
  if (!command.plot.empty()) {
    if (Status drawn = WriteFile(command.plot, ToSvg(report)); !drawn) return drawn;
  }
  return Print(Render(report, command.format));
}

}  // namespace fathom::cli
