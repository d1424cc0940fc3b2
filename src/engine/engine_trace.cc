#include "engine/engine_trace.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace fathom::engine {
namespace {

std::int64_t RequestTrack(const RequestState& request) { return request.id + 1; }

}  // namespace

Result<std::unique_ptr<EngineTrace>> EngineTrace::Open(const std::filesystem::path& path) {
  Result<std::unique_ptr<TraceWriter>> writer = TraceWriter::Open(path);
  if (!writer) return Unexpected(writer.error());
  (*writer)->NameTrack(0, "steps");
  return std::unique_ptr<EngineTrace>(new EngineTrace(*std::move(writer)));
}

void EngineTrace::AddLayer(const Layer& layer) {
  const TraceWriter::Argument arguments[] = {
      {"layers_done", static_cast<double>(layer.progress.layers_done)},
      {"layers", static_cast<double>(layer.progress.layers)},
      {"prompt_tokens", static_cast<double>(layer.n_prompt_tokens)}};
  writer_->Span("layer", 0, layer.begin, layer.end, arguments);
  end_ = layer.end;
}

void EngineTrace::AddStep(const Step& step) {
  std::vector<TraceWriter::Argument> arguments = {
      {"decoding", static_cast<double>(step.n_decoding)},
      {"prompt_tokens", static_cast<double>(step.n_prompt_tokens)},
      {"generated", static_cast<double>(step.n_generated)},
      {"engine_microseconds", step.engine_seconds * 1e6}};
  if (const StreamingCounts& now = step.streaming; now.slots > 0) {
    const StreamingCounts before = std::exchange(streaming_, now);
    const std::int64_t n_hits = now.hits() - before.hits();
    const std::int64_t n_uses = now.uses() - before.uses();
    const double waited = now.stall_seconds - before.stall_seconds;
    const double waited_busy = now.stall_busy_seconds - before.stall_busy_seconds;
    const TraceWriter::Argument experts[] = {
        {"expert_hits", static_cast<double>(n_hits)},
        {"expert_misses", static_cast<double>(n_uses - n_hits)},
        {"expert_read_bytes", static_cast<double>(now.read_bytes - before.read_bytes)},
        {"expert_guesses", static_cast<double>(now.guesses.experts - before.guesses.experts)},
        {"expert_guesses_useful", static_cast<double>(now.guesses.useful - before.guesses.useful)},
        {"disk_wait_microseconds", waited * 1e6},
        {"disk_wait_busy_microseconds", waited_busy * 1e6}};
    arguments.insert(arguments.end(), std::begin(experts), std::end(experts));
  }
  writer_->Span("step", 0, std::max(step.begin, end_), step.end, arguments);
  end_ = step.end;
  const TraceWriter::Argument requests[] = {{"running", static_cast<double>(step.n_running)},
                                            {"waiting", static_cast<double>(step.n_waiting)}};
  writer_->Counter("requests", step.end, requests);
}

void EngineTrace::AddPreemption(const RequestState& request) {
  writer_->Instant("preempted", RequestTrack(request), Clock::now());
}

void EngineTrace::AddRequest(const RequestState& request) {
  if (!request.started) return;
  const Clock::time_point now = Clock::now();
  const Clock::time_point first = request.first_token.value_or(now);
  writer_->Span("queue", RequestTrack(request), request.submitted, *request.started);
  const TraceWriter::Argument prompt[] = {
      {"tokens", static_cast<double>(request.stats.prompt_tokens)},
      {"cached", static_cast<double>(request.stats.cached_tokens)}};
  writer_->Span("prefill", RequestTrack(request), *request.started, first, prompt);
  const TraceWriter::Argument answer[] = {
      {"tokens", static_cast<double>(request.stats.generated_tokens)},
      {"drafted", static_cast<double>(request.stats.drafted_tokens)},
      {"accepted", static_cast<double>(request.stats.accepted_tokens)},
      {"preemptions", static_cast<double>(request.stats.preemptions)}};
  writer_->Span("decode", RequestTrack(request), first, now, answer);
}

}  // namespace fathom::engine
