#include "measure/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "base/parse_text.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "measure/chart.h"

namespace fathom::measure::load {
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

using measure::ChartLine;

constexpr std::size_t kColumns = 5;  // levels beside each other in the table

using Value = std::function<std::optional<double>(const LoadSummary&)>;

// One figure of a level: its name for people, its name for programs, its format.
struct Figure {
  std::string name;
  std::string key;
  Value value;
  int n_decimals = 2;
};

// Returns one part of a spread, if there is one.
Value SpreadPart(std::optional<Spread> LoadSummary::*spread, double Spread::*part) {
  return [=](const LoadSummary& summary) {
    return summary.*spread ? std::optional((*(summary.*spread)).*part) : std::nullopt;
  };
}

// Returns the counts and rates.
std::vector<Figure> MakeFigures() {
  const auto count = [](std::int64_t LoadSummary::*member) {
    return [member](const LoadSummary& s) { return static_cast<double>(s.*member); };
  };
  const auto rate = [](double LoadSummary::*member) {
    return [member](const LoadSummary& s) { return s.*member; };
  };
  return {
      {"Successful requests", "successful_requests", count(&LoadSummary::n_successful), 0},
      {"Failed requests", "failed_requests", count(&LoadSummary::n_failed), 0},
      {"Cancelled requests", "cancelled_requests", count(&LoadSummary::n_cancelled), 0},
      {"Duration (s)", "duration_s", rate(&LoadSummary::duration_s)},
      {"Input tokens", "input_tokens", count(&LoadSummary::n_input), 0},
      {"Cached input tokens", "cached_input_tokens", count(&LoadSummary::n_cached), 0},
      {"Output tokens", "output_tokens", count(&LoadSummary::n_output), 0},
      {"Requests (per s)", "request_throughput", rate(&LoadSummary::request_rate)},
      {"Goodput (requests per s)", "goodput", [](const LoadSummary& s) { return s.goodput; }},
      {"Output tokens (per s)", "output_token_throughput", rate(&LoadSummary::output_token_rate)},
      {"Total tokens (per s)", "total_token_throughput", rate(&LoadSummary::total_token_rate)},
      {"Concurrency, mean", "mean_concurrency", rate(&LoadSummary::mean_concurrency)},
      {"Concurrency, peak", "peak_concurrency", count(&LoadSummary::peak_concurrency), 0},
  };
}

struct Time {
  const char* name;
  const char* key;
  std::optional<Spread> LoadSummary::*spread;
};

constexpr Time kTimes[] = {{"TTFT", "ttft_ms", &LoadSummary::ttft},
                           {"TPOT", "tpot_ms", &LoadSummary::tpot},
                           {"ITL", "itl_ms", &LoadSummary::itl},
                           {"E2E", "e2e_ms", &LoadSummary::e2e}};

struct Part {
  const char* name;
  double Spread::*value;
};

constexpr Part kParts[] = {{"mean", &Spread::mean},
                           {"median", &Spread::median},
                           {"p90", &Spread::p90},
                           {"p95", &Spread::p95},
                           {"p99", &Spread::p99}};

// Returns all figures, the times last.
std::vector<Figure> AllFigures() {
  std::vector<Figure> figures = MakeFigures();
  for (const Time& time : kTimes) {
    for (const Part& part : kParts) {
      figures.push_back({fmt::format("{} {} (ms)", time.name, part.name),
                         fmt::format("{}_{}", time.key, part.name),
                         SpreadPart(time.spread, part.value)});
    }
  }
  return figures;
}

JsonValue ToJson(const std::optional<double>& value) {
  return value ? JsonValue(*value) : JsonValue(nullptr);
}

JsonValue ToJson(const Length& length) {
  switch (length.kind) {
    case Length::Kind::kFixed:
      return length.low;
    case Length::Kind::kUniform:
      return {{"uniform", {length.low, length.high}}};
    case Length::Kind::kLogNormal:
      return {{"lognormal", {length.mean, length.sigma}}};
  }
  return nullptr;
}

JsonValue ToJson(const LevelSummary& one, const std::vector<Figure>& counts) {
  const auto& [level, summary] = one;
  JsonValue json = {{"name", level.Name()},
                    {"rate", ToJson(level.rate)},
                    {"concurrency", level.rate ? JsonValue() : JsonValue(level.concurrency)}};
  for (const Figure& figure : counts) {
    const std::optional<double> value = figure.value(summary);
    json[figure.key] = value && figure.n_decimals == 0
                           ? JsonValue(static_cast<std::int64_t>(*value))
                           : ToJson(value);
  }
  for (const Time& time : kTimes) {
    const std::optional<Spread>& spread = summary.*time.spread;
    JsonValue& place = json[time.key];
    for (const Part& part : kParts) {
      if (spread) place[part.name] = (*spread).*part.value;
    }
  }
  json["failures"] = JsonValue::Array();
  for (const FailureCount& failure : summary.failures) {
    json["failures"].push_back(
        {{"failure", failure.failure}, {"requests", failure.n}, {"message", failure.message}});
  }
  return json;
}

std::string Cell(const Figure& figure, const LoadSummary& summary) {
  const std::optional<double> value = figure.value(summary);
  return value ? fmt::format("{:.{}f}", *value, figure.n_decimals) : "-";
}

// Appends the columns [begin, end) of the table.
void AppendColumns(const LoadReport& report, std::size_t begin, std::size_t end,
                   std::string* text) {
  const auto append_row = [&](std::string_view name, const auto& cell) {
    fmt::format_to(std::back_inserter(*text), "{:<26}", name);
    for (std::size_t i = begin; i < end; ++i) {
      fmt::format_to(std::back_inserter(*text), " {:>13}", cell(report.levels[i]));
    }
    *text += '\n';
  };
  append_row("", [](const LevelSummary& one) { return one.level.Name(); });
  for (const Figure& figure : AllFigures()) {
    append_row(figure.name, [&](const LevelSummary& one) { return Cell(figure, one.summary); });
  }
}

ChartLine MakeLine(const LoadReport& report, std::string name, const Value& value) {
  ChartLine line = {.name = std::move(name), .points = {}};
  for (const auto& [level, summary] : report.levels) {
    if (const std::optional<double> y = value(summary)) {
      line.points.push_back({.x = level.rate.value_or(level.concurrency),
                             .y = *y,
                             .low = *y,
                             .high = *y,
                             .title = fmt::format("{}, {}: {:.2f}", line.name, level.Name(), *y)});
    }
  }
  std::sort(line.points.begin(), line.points.end(),
            [](const auto& a, const auto& b) { return a.x < b.x; });
  return line;
}

std::vector<ChartLine> MakeLines(const LoadReport& report,
                                 std::optional<Spread> LoadSummary::*spread) {
  return {MakeLine(report, "median", SpreadPart(spread, &Spread::median)),
          MakeLine(report, "p99", SpreadPart(spread, &Spread::p99))};
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

std::string ToTable(const LoadReport& report) {
  std::string text =
      fmt::format("server  {}, {}\nmodel   {}\n{}", report.url, Name(report.endpoint), report.model,
                  report.interrupted ? "interrupted: the last level is short\n" : "");
  for (std::size_t i = 0; i < report.levels.size(); i += kColumns) {
    text += '\n';
    AppendColumns(report, i, std::min(i + kColumns, report.levels.size()), &text);
  }
  for (const auto& [level, summary] : report.levels) {
    for (const FailureCount& failure : summary.failures) {
      fmt::format_to(std::back_inserter(text), "\n{}: {} of {}: {}\n", level.Name(), failure.n,
                     failure.failure, failure.message);
    }
  }
  return text;
}

std::string ToJson(const LoadReport& report) {
  const std::vector<Figure> counts = MakeFigures();
  JsonValue json = {{"url", report.url},
                    {"endpoint", Name(report.endpoint)},
                    {"model", report.model},
                    {"input_tokens", ToJson(report.workload.input)},
                    {"output_tokens", ToJson(report.workload.output)},
                    {"shared_prefix", report.workload.shared_prefix},
                    {"groups", report.workload.n_groups},
                    {"turns", report.workload.n_turns},
                    {"vocab", report.workload.vocab_size},
                    {"seed", report.workload.seed},
                    {"objectives",
                     {{"ttft_ms", ToJson(report.objectives.ttft_ms)},
                      {"tpot_ms", ToJson(report.objectives.tpot_ms)},
                      {"e2e_ms", ToJson(report.objectives.e2e_ms)}}},
                    {"interrupted", report.interrupted},
                    {"levels", JsonValue::Array()}};
  for (const LevelSummary& level : report.levels) {
    json["levels"].push_back(ToJson(level, counts));
  }
  // A server's text may be any bytes.
  return WriteJson(json, 2) + "\n";
}

std::string ToCsv(const LoadReport& report) {
  const std::vector<Figure> figures = AllFigures();
  std::string text = "rate,concurrency";
  for (const Figure& figure : figures) {
    text += "," + figure.key;
  }
  for (const auto& [level, summary] : report.levels) {
    text +=
        level.rate ? fmt::format("\n{},", *level.rate) : fmt::format("\n,{}", level.concurrency);
    for (const Figure& figure : figures) {
      const std::optional<double> value = figure.value(summary);
      text += value ? fmt::format(",{}", *value) : ",";
    }
  }
  return text + "\n";
}

std::string ToSvg(const LoadReport& report) {
  const bool is_open = !report.levels.empty() && report.levels.front().level.rate.has_value();
  const std::string x_label = is_open ? "conversations begun per second" : "requests at once";
  const double least_x = is_open ? 1e-9 : 10;
  std::vector<ChartLine> rates = {
      MakeLine(report, "output", [](const LoadSummary& s) { return s.output_token_rate; }),
      MakeLine(report, "total", [](const LoadSummary& s) { return s.total_token_rate; })};
  return measure::ToSvg(measure::LineChart{
      .title = report.model,
      .subtitle = fmt::format("{}, {}", report.url, Name(report.endpoint)),
      .panels = {{"Throughput", x_label, "tokens per second", least_x, std::move(rates)},
                 {"Time to the first token (TTFT)", x_label, "ms", least_x,
                  MakeLines(report, &LoadSummary::ttft)},
                 {"Time per output token (TPOT)", x_label, "ms", least_x,
                  MakeLines(report, &LoadSummary::tpot)}}});
}

}  // namespace fathom::measure::load
