#include "measure/load/load_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "measure/bench/line_chart.h"

namespace fathom::load {
namespace {

using benchmark::ChartLine;
using Value = std::function<std::optional<double>(const LoadSummary&)>;

ChartLine LineOf(const LoadReport& report, std::string name, const Value& value) {
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

std::vector<ChartLine> LinesOf(const LoadReport& report,
                               std::optional<Spread> LoadSummary::*spread) {
  const auto of = [spread](double Spread::*value) {
    return [=](const LoadSummary& summary) {
      return summary.*spread ? std::optional((*(summary.*spread)).*value) : std::nullopt;
    };
  };
  return {LineOf(report, "median", of(&Spread::median)), LineOf(report, "p99", of(&Spread::p99))};
}

}  // namespace

std::string ToSvg(const LoadReport& report) {
  const bool is_open = !report.levels.empty() && report.levels.front().level.rate.has_value();
  const std::string x_label = is_open ? "conversations begun per second" : "requests at once";
  const double least_x = is_open ? 1e-9 : 10;
  std::vector<ChartLine> rates = {
      LineOf(report, "output", [](const LoadSummary& s) { return s.output_token_rate; }),
      LineOf(report, "total", [](const LoadSummary& s) { return s.total_token_rate; })};
  return benchmark::ToSvg(benchmark::LineChart{
      .title = report.model,
      .subtitle = fmt::format("{}, {}", report.url, NameOf(report.endpoint)),
      .panels = {{"Throughput", x_label, "tokens per second", least_x, std::move(rates)},
                 {"Time to the first token (TTFT)", x_label, "ms", least_x,
                  LinesOf(report, &LoadSummary::ttft)},
                 {"Time per output token (TPOT)", x_label, "ms", least_x,
                  LinesOf(report, &LoadSummary::tpot)}}});
}

}  // namespace fathom::load
