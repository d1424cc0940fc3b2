#include "cli/batch/batch_run.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include "base/line_reader.h"
#include "cli/terminal/output.h"

namespace fathom::cli {
namespace {

// The time between two polls of all streams. They buffer events meanwhile, so the time may be short
// compared with a step of a model worth a batch, and costs nothing.
constexpr auto kWait = std::chrono::milliseconds(2);

// Iterates over the lines of a text that are not blank, with their numbers from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : lines_(WithoutByteOrderMark(text)) {}

  bool Next(std::string_view* line) {
    while (lines_.Next(line)) {
      ++number_;
      if (line->find_first_not_of(" \t\r") != std::string_view::npos) return true;
    }
    return false;
  }

  std::int64_t number() const { return number_; }

 private:
  LineReader lines_;
  std::int64_t number_ = 0;
};

BatchLineError DuplicateError(const std::string& custom_id) {
  return {.custom_id = custom_id,
          .code = "duplicate_custom_id",
          .message = "custom_id: an earlier line has the same"};
}

double PerSecond(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string Duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace

// A line that runs. Must not move: the answer refers to the call.
struct BatchRun::Job {
  Job(std::string id, ApiCall prepared, const ApiModel& model, const RandomBits& random_bits)
      : custom_id(std::move(id)),
        call(std::move(prepared)),
        answer(call, model, static_cast<std::int64_t>(std::time(nullptr)), random_bits) {}

  bool is_submitted() const { return running.size() == call.requests.size(); }
  bool is_done() const { return is_submitted() && n_ended == running.size(); }

  const std::string custom_id;
  ApiCall call;
  ApiAnswer answer;
  std::vector<std::unique_ptr<RunningRequest>> running;  // null: the request has ended
  std::size_t n_ended = 0;
};

BatchPlan PlanBatch(std::string_view input, const BatchOutput& output) {
  BatchPlan plan;
  std::set<std::string> seen;
  Lines lines(input);
  for (std::string_view line; lines.Next(&line); ++plan.n_lines) {
    const auto parsed = ParseBatchLine(line);
    const bool runs = parsed && seen.insert(parsed->custom_id).second;
    const bool is_answered =
        runs ? output.HasAnswer(parsed->custom_id) : output.HasError(lines.number());
    plan.n_open += is_answered ? 0 : 1;
    plan.n_kept_errors += is_answered && (!runs || output.HasFailed(parsed->custom_id)) ? 1 : 0;
  }
  return plan;
}

std::string BatchProgress(const BatchTotals& totals, std::int64_t n_open, double seconds) {
  std::string text = fmt::format("batch {}/{}, in {:.1f}, out {:.1f} tokens/s", totals.n_done,
                                 n_open, PerSecond(totals.usage.prompt_tokens, seconds),
                                 PerSecond(totals.n_generated, seconds));
  if (totals.n_done > 0) {
    const double per_request = seconds / static_cast<double>(totals.n_done);
    text += fmt::format(", {} left",
                        Duration(per_request * static_cast<double>(n_open - totals.n_done)));
  }
  return text;
}

std::string BatchSummary(const BatchTotals& totals, const BatchPlan& plan, double seconds) {
  const std::int64_t n_kept = plan.n_lines - plan.n_open;
  const std::int64_t n_errors = totals.n_errors + plan.n_kept_errors;
  const std::string kept = n_kept == 0 ? "" : fmt::format(" ({} kept from before)", n_kept);
  const std::string relaxed =
      totals.n_relaxed == 0
          ? ""
          : fmt::format("; {} asked for a form that is not enforced", totals.n_relaxed);
  return fmt::format(
      "{} of {} requests{}, {} {}; tokens: prompt {} ({} cached), generated {}; {:.1f} s, {:.1f} "
      "prompt tokens/s, {:.1f} generated tokens/s{}",
      totals.n_done + n_kept, plan.n_lines, kept, n_errors, n_errors == 1 ? "error" : "errors",
      totals.usage.prompt_tokens, totals.usage.cached_tokens, totals.n_generated, seconds,
      PerSecond(totals.usage.prompt_tokens, seconds), PerSecond(totals.n_generated, seconds),
      relaxed);
}

BatchRun::BatchRun(const ApiModel& model, RequestRunner& runner, BatchOutput& output,
                   RandomBits random_bits)
    : model_(model), runner_(runner), output_(output), random_bits_(std::move(random_bits)) {}

BatchRun::~BatchRun() = default;

Status BatchRun::Run(std::string_view input, const BatchWatch& watch) {
  Lines lines(input);
  bool has_lines = true;
  while (has_lines || next_ != nullptr || !jobs_.empty()) {
    if (!watch(totals_)) return Unexpected({ErrorCode::kUnavailable, ""});
    bool has_moved = false;
    if (next_ != nullptr) {
      if (Status submitted = SubmitNext(); !submitted) return submitted;
      has_moved = next_ == nullptr;
    } else if (std::string_view line; has_lines && (has_lines = lines.Next(&line))) {
      if (Status started = Start(line, lines.number()); !started) return started;
      has_moved = true;
    }
    // Drains a job that waits for room, too: an unread stream keeps its room.
    Status drained = next_ != nullptr ? Drain(*next_, &has_moved) : Status();
    for (std::size_t i = 0; i < jobs_.size() && drained; ++i) {
      drained = Drain(*jobs_[i], &has_moved);
    }
    if (!drained) return drained;
    std::erase_if(jobs_, [](const std::unique_ptr<Job>& job) { return job->is_done(); });
    if (!has_moved) std::this_thread::sleep_for(kWait);
  }
  return output_.CheckWhole();
}

// Writes the error of the line, or makes it the next job.
Status BatchRun::Start(std::string_view line, std::int64_t number) {
  auto parsed = ParseBatchLine(line);
  if (!parsed) return WriteError(parsed.error(), number);
  if (!seen_.insert(parsed->custom_id).second) {
    return WriteError(DuplicateError(parsed->custom_id), number);
  }
  if (output_.HasAnswer(parsed->custom_id)) return {};
  ApiResult<ApiCall> call = parsed->api->prepare(parsed->body, model_);
  if (call && call->stream) {
    call = tl::unexpected<ApiError>(
        ToApiError({ErrorCode::kInvalidArgument, "stream: expected false in a batch, found true"}));
  }
  if (!call) return Finish(parsed->custom_id, parsed->api->error(call.error()));
  totals_.n_relaxed += call->relaxed.empty() ? 0 : 1;
  next_ =
      std::make_unique<Job>(std::move(parsed->custom_id), *std::move(call), model_, random_bits_);
  return SubmitNext();
}

// Submits requests of the next job to the engine until it refuses one.
Status BatchRun::SubmitNext() {
  Job& job = *next_;
  while (!job.is_submitted()) {
    Result<std::unique_ptr<RunningRequest>> running =
        runner_.Submit(job.call.requests[job.running.size()]);
    if (!running && running.error().code == ErrorCode::kResourceExhausted) return {};
    if (!running && running.error().code == ErrorCode::kUnavailable) {
      return Unexpected(running.error());
    }
    if (!running) {
      const std::unique_ptr<Job> failed = std::move(next_);
      return Finish(failed->custom_id, failed->call.api->error(ToApiError(running.error())));
    }
    job.running.push_back(*std::move(running));
  }
  jobs_.push_back(std::move(next_));
  return {};
}

// Takes the events that its streams hold now, and writes the result if the job is complete.
Status BatchRun::Drain(Job& job, bool* has_moved) {
  StreamEvent event;
  for (std::size_t i = 0; i < job.running.size(); ++i) {
    while (job.running[i] != nullptr) {
      const std::optional<bool> next = job.running[i]->NextFor(std::chrono::milliseconds(0), event);
      if (!next) break;
      *has_moved = true;
      if (*next) {
        totals_.n_generated += event.token == StreamEvent::kNoToken ? 0 : 1;
        job.answer.Add(i, event);
        if (job.answer.WantsNoMore(i)) job.running[i]->Cancel();
      } else {
        job.answer.End(i, job.running[i]->stats());
        job.running[i].reset();
        ++job.n_ended;
      }
    }
  }
  if (!job.is_done()) return {};
  constexpr int kServiceUnavailable = 503;
  const std::optional<ApiError> error = job.answer.error();
  if (error && error->status == kServiceUnavailable) {
    // This run cancels nothing, so the engine is shutting down.
    return MakeError(ErrorCode::kUnavailable, "{}", error->message);
  }
  const ApiReply reply = WholeReply(job.answer);
  const Usage& usage = job.answer.usage();
  totals_.usage.prompt_tokens += usage.prompt_tokens;
  totals_.usage.cached_tokens += usage.cached_tokens;
  totals_.usage.completion_tokens += usage.completion_tokens;
  totals_.usage.reasoning_tokens += usage.reasoning_tokens;
  return Finish(job.custom_id, reply);
}

Status BatchRun::Finish(const std::string& custom_id, const ApiReply& reply) {
  const std::string request_id = MakeId("", random_bits_);
  return Write(BatchReplyLine(custom_id, request_id, reply), reply.status != 200);
}

Status BatchRun::WriteError(const BatchLineError& error, std::int64_t number) {
  if (output_.HasError(number)) return {};
  return Write(BatchErrorLine(error, number), true);
}

Status BatchRun::Write(const std::string& line, bool is_error) {
  if (Status written = output_.Append(line); !written) return written;
  ++totals_.n_done;
  totals_.n_errors += is_error ? 1 : 0;
  return {};
}

}  // namespace fathom::cli
