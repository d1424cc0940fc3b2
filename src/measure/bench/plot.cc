#include "measure/bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "measure/bench/line_chart.h"

namespace fathom::benchmark {
namespace {

// Rows that differ in depth alone are one line, by ascending depth.
std::vector<ChartLine> LinesOf(const Report& report, RowSpec::Kind kind) {
  std::vector<ChartLine> lines;
  for (const RowResult& row : report.rows) {
    if (row.row.kind != kind) {
      continue;
    }
    RowSpec spec = row.row;
    spec.depth = 0;
    const std::string name = Name(spec);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const ChartLine& one) { return one.name == name; });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {name, {}});
    }
    const auto& [min, median, max] = row.tok_s;
    line->points.push_back({.x = static_cast<double>(row.row.depth),
                            .y = median,
                            .low = min,
                            .high = max,
                            .title = fmt::format("{}: {:.2f} tok/s ({:.2f} to {:.2f})",
                                                 Name(row.row), median, min, max)});
  }
  for (ChartLine& line : lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  }
  return lines;
}

}  // namespace

std::string ToSvg(const Report& report) {
  LineChart chart = {
      .title = report.model,
      .subtitle = fmt::format(
          "{} thread{}, {}, pages of {} KiB; the machine reads {:.1f} GB/s and does "
          "{:.0f} GFLOP/s",
          report.n_threads, report.n_threads == 1 ? "" : "s", report.isa, report.page_bytes / 1024,
          report.roofline.read_gb_s, report.roofline.fma_gflop_s)};
  for (const auto& [kind, title] : {std::pair(RowSpec::Kind::kDecode, "Decoding, all sequences"),
                                    std::pair(RowSpec::Kind::kPrefill, "Prefill")}) {
    std::vector<ChartLine> lines = LinesOf(report, kind);
    if (!lines.empty()) {
      chart.panels.push_back({.title = title,
                              .x_label = "tokens in the cache before",
                              .y_label = "tokens per second",
                              .lines = std::move(lines)});
    }
  }
  return ToSvg(chart);
}

}  // namespace fathom::benchmark
