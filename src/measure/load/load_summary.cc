#include "measure/load/load_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/parse_text.h"

namespace fathom::load {
namespace {

constexpr double kMilliseconds = 1000;

double TimeToFirstToken(const RequestRecord& record) {
  return kMilliseconds * record.chunks.front().time_s;
}

// Returns none for an answer of one token.
std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  if (record.chunks.empty() || record.n_output < 2) return std::nullopt;
  const double time_s = record.chunks.back().time_s - record.chunks.front().time_s;
  return kMilliseconds * time_s / static_cast<double>(record.n_output - 1);
}

double EndToEnd(const RequestRecord& record) {
  return kMilliseconds * (record.end_s - record.start_s);
}

// The tokens of a chunk arrive together: each gets an equal part of the time since the previous
// chunk.
void AppendTokenTimes(const RequestRecord& record, std::vector<double>* times) {
  for (std::size_t i = 1; i < record.chunks.size(); ++i) {
    const TokenChunk& chunk = record.chunks[i];
    const double gap = kMilliseconds * (chunk.time_s - record.chunks[i - 1].time_s);
    times->insert(times->end(), static_cast<std::size_t>(chunk.n_tokens),
                  gap / static_cast<double>(chunk.n_tokens));
  }
}

bool IsGood(const RequestRecord& record, const Objectives& objectives) {
  const auto within = [](std::optional<double> time, std::optional<double> limit) {
    return !limit || !time || *time <= *limit;
  };
  const bool has_tokens = !record.chunks.empty();
  return (has_tokens || !objectives.ttft_ms) &&
         within(has_tokens ? std::optional(TimeToFirstToken(record)) : std::nullopt,
                objectives.ttft_ms) &&
         within(TimePerOutputToken(record), objectives.tpot_ms) &&
         within(EndToEnd(record), objectives.e2e_ms);
}

std::int64_t PeakConcurrency(const std::vector<RequestRecord>& records) {
  std::vector<std::pair<double, int>> changes;  // at equal times, an end comes before a start
  for (const RequestRecord& record : records) {
    changes.emplace_back(record.start_s, 1);
    changes.emplace_back(record.end_s, -1);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t running = 0;
  std::int64_t peak = 0;
  for (const auto& [time, change] : changes) {
    running += change;
    peak = std::max(peak, running);
  }
  return peak;
}

void CountFailure(const RequestRecord& record, std::vector<FailureCount>* failures) {
  auto found = std::find_if(failures->begin(), failures->end(),
                            [&](const FailureCount& one) { return one.failure == record.failure; });
  if (found == failures->end()) {
    found =
        failures->insert(failures->end(), {.failure = record.failure, .message = record.message});
  }
  ++found->n;
}

}  // namespace

double Percentile(std::span<const double> sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

std::optional<Spread> ComputeSpread(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return Spread{.mean = sum / static_cast<double>(values.size()),
                .median = Percentile(values, 50),
                .p90 = Percentile(values, 90),
                .p95 = Percentile(values, 95),
                .p99 = Percentile(values, 99)};
}

Status AddObjective(std::string_view text, Objectives* objectives) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const std::string_view number = text.substr(std::min(colon + 1, text.size()));
  const double limit = ParseNumber<double>(number).value_or(0);
  std::optional<double>* place = name == "ttft"   ? &objectives->ttft_ms
                                 : name == "tpot" ? &objectives->tpot_ms
                                 : name == "e2e"  ? &objectives->e2e_ms
                                                  : nullptr;
  if (place == nullptr || !(limit > 0 && std::isfinite(limit))) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "expected ttft:MS, tpot:MS or e2e:MS, found \"{}\"", text);
  }
  *place = limit;
  return {};
}

LoadSummary Summarize(const LoadResult& result, const Objectives& objectives) {
  LoadSummary summary = {.duration_s = result.duration_s};
  std::vector<double> ttft, tpot, itl, e2e;
  std::int64_t n_good = 0;
  double busy_s = 0;
  for (const RequestRecord& record : result.records) {
    busy_s += record.end_s - record.start_s;
    if (!record.successful()) {
      ++(record.cancelled ? summary.n_cancelled : summary.n_failed);
      if (!record.cancelled) CountFailure(record, &summary.failures);
      continue;
    }
    ++summary.n_successful;
    summary.n_input += record.n_input;
    summary.n_cached += record.n_cached;
    summary.n_output += record.n_output;
    if (!record.chunks.empty()) ttft.push_back(TimeToFirstToken(record));
    if (const auto time = TimePerOutputToken(record)) tpot.push_back(*time);
    AppendTokenTimes(record, &itl);
    e2e.push_back(EndToEnd(record));
    n_good += IsGood(record, objectives) ? 1 : 0;
  }
  std::stable_sort(summary.failures.begin(), summary.failures.end(),
                   [](const FailureCount& a, const FailureCount& b) { return a.n > b.n; });
  const auto rate = [&](double n) { return result.duration_s > 0 ? n / result.duration_s : 0; };
  summary.request_rate = rate(static_cast<double>(summary.n_successful));
  summary.output_token_rate = rate(static_cast<double>(summary.n_output));
  summary.total_token_rate = rate(static_cast<double>(summary.n_input + summary.n_output));
  summary.mean_concurrency = rate(busy_s);
  summary.peak_concurrency = PeakConcurrency(result.records);
  if (objectives.any()) summary.goodput = rate(static_cast<double>(n_good));
  summary.ttft = ComputeSpread(std::move(ttft));
  summary.tpot = ComputeSpread(std::move(tpot));
  summary.itl = ComputeSpread(std::move(itl));
  summary.e2e = ComputeSpread(std::move(e2e));
  return summary;
}

}  // namespace fathom::load
