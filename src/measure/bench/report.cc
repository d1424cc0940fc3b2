#include "measure/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"
#include "measure/chart.h"

namespace fathom::measure::bench {
namespace {

using measure::ChartLine;
using measure::ChartPoint;

std::string_view KindName(const RowSpec& row) {
  return row.kind == RowSpec::Kind::kPrefill ? "prefill" : "decode";
}

// The units and limits of a profile of a GPU, or of processors.
struct Limits {
  std::string_view bytes_unit;
  std::string_view limit;  // name of the limit of bytes per second
  double scale = 1;        // factor from GB/s
  double gb_s = 0;
  bool has_flops = false;
};

Limits ChooseLimits(const Roofline& roofline) {
  if (roofline.copy_gb_s > 0) return {"TB/s", "copy", 1e-3, roofline.copy_gb_s, false};
  return {"GB/s", "read", 1, roofline.read_gb_s, true};
}

// Returns billions of `amount` per second; none where either value is unknown.
std::optional<double> Rate(std::optional<double> amount, double seconds) {
  if (!amount || seconds <= 0) return std::nullopt;
  return 1e-9 * *amount / seconds;
}

std::string FormatRow(const ProfileRow& row, double seconds, const Limits& limits,
                      const Roofline& roofline) {
  std::string line =
      fmt::format("{:<32} {:<16} {:>8} {:>12.1f} {:>6.1f}", row.name, row.part, row.n,
                  1e6 * row.seconds, seconds > 0 ? 100 * row.seconds / seconds : 0.0);
  const std::optional<double> gb_s = Rate(row.cost.bytes, row.seconds);
  if (gb_s) {
    fmt::format_to(std::back_inserter(line), "  {:>10.3f} {:>8.3f} {:>7.1f}",
                   1e-6 * *row.cost.bytes, limits.scale * *gb_s, 100 * *gb_s / limits.gb_s);
  }
  const std::optional<double> gflop_s = Rate(row.cost.flops, row.seconds);
  if (gb_s && gflop_s && limits.has_flops) {
    fmt::format_to(std::back_inserter(line), "  {:>8.2f} {:>6.1f}", *gflop_s,
                   100 * *gflop_s / roofline.fma_gflop_s);
  }
  return line + '\n';
}

// Writes a heading and one line per part of the model and operation or kernel, the longest first,
// with its share of the time and of the limits: the copy bandwidth for GPUs, the read bandwidth and
// the multiply-adds for processors. `row` names the profiled row.
std::string ProfileTable(const std::string& row, const Profile& profile, const Roofline& roofline) {
  const double seconds = profile.seconds();
  const Limits limits = ChooseLimits(roofline);
  std::string text =
      fmt::format("\n{:<32} {:<16} {:>8} {:>12} {:>6}  {:>10} {:>8} {:>7}{}\n", row, "layers", "n",
                  "us", "%", "MB", limits.bytes_unit, fmt::format("% {}", limits.limit),
                  limits.has_flops ? "   GFLOP/s  % fma" : "");
  for (const ProfileRow& one : profile.rows) text += FormatRow(one, seconds, limits, roofline);
  return text + fmt::format("{:<32} {:<16} {:>8} {:>12.1f} {:>6.1f}\n", "all", "", "",
                            1e6 * seconds, 100.0);
}

// Returns {seconds, kernels [{part, name, n, seconds, bytes, gb_s, percent_copy or percent_read,
// flops, gflop_s, percent_fma}]}. Bytes, flops and the values derived from them are present where
// they are known.
JsonValue ProfileJson(const Profile& profile, const Roofline& roofline) {
  const Limits limits = ChooseLimits(roofline);
  JsonValue kernels = JsonValue::Array();
  for (const ProfileRow& one : profile.rows) {
    JsonValue kernel = {
        {"part", one.part}, {"name", one.name}, {"n", one.n}, {"seconds", one.seconds}};
    if (const std::optional<double> gb_s = Rate(one.cost.bytes, one.seconds)) {
      kernel["bytes"] = *one.cost.bytes;
      kernel["gb_s"] = *gb_s;
      kernel[fmt::format("percent_{}", limits.limit)] = 100 * *gb_s / limits.gb_s;
    }
    if (const std::optional<double> gflop_s = Rate(one.cost.flops, one.seconds)) {
      kernel["flops"] = *one.cost.flops;
      kernel["gflop_s"] = *gflop_s;
      kernel["percent_fma"] = 100 * *gflop_s / roofline.fma_gflop_s;
    }
    kernels.push_back(std::move(kernel));
  }
  return {{"seconds", profile.seconds()}, {"kernels", std::move(kernels)}};
}

// Return bytes read per second as a percentage of the measured bandwidth, of the bandwidth of a
// copy inside a GPU, and operations as a percentage of the multiply-add peak.
double PercentRead(const Report& report, const RowResult& row) {
  return 100 * row.gb_s() / report.roofline.read_gb_s;
}

double PercentCopy(const Report& report, const RowResult& row) {
  return 100 * row.gb_s() / report.roofline.copy_gb_s;
}

double PercentFma(const Report& report, const RowResult& row) {
  return 100 * row.gflop_s() / report.roofline.fma_gflop_s;
}

JsonValue ToJson(const Roofline& roofline) {
  JsonValue json = {{"read_gb_s", roofline.read_gb_s}, {"fma_gflop_s", roofline.fma_gflop_s}};
  if (roofline.copy_gb_s > 0) {
    json["copy_gb_s"] = roofline.copy_gb_s;
    json["launch_us"] = roofline.launch_us;
    if (roofline.graph_launch_us > 0) json["graph_launch_us"] = roofline.graph_launch_us;
  }
  return json;
}

JsonValue ToJson(const Report& report, const RowResult& result) {
  JsonValue json = {
      {"name", Name(result.row)},
      {"kind", KindName(result.row)},
      {"n_tokens", result.row.n_tokens},
      {"depth", result.row.depth},
      {"n_sequences", result.row.n_sequences},
      {"tok_s",
       {{"min", result.tok_s.min}, {"median", result.tok_s.median}, {"max", result.tok_s.max}}},
      {"gb_s", result.gb_s()},
      {"percent_read", PercentRead(report, result)},
      {"gflop_s", result.gflop_s()},
      {"percent_fma", PercentFma(report, result)},
      {"gb_per_token", result.gb_per_token},
      {"gflop_per_token", result.gflop_per_token},
      {"experts_per_layer", result.experts_per_layer},
      {"roofline", ToJson(report.roofline)}};
  if (!report.device.empty()) json["percent_copy"] = PercentCopy(report, result);
  if (result.profile) json["profile"] = ProfileJson(*result.profile, report.roofline);
  return json;
}

// Quotes a field where RFC 4180 demands it.
std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    quoted.append(c == '"' ? 2 : 1, c);
  }
  return quoted + '"';
}

// Collects rows that differ only in depth into one line, by ascending depth.
std::vector<ChartLine> MakeLines(const Report& report, RowSpec::Kind kind) {
  std::vector<ChartLine> lines;
  for (const RowResult& row : report.rows) {
    if (row.row.kind != kind) continue;
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

// The units of tables: 1e9 per second for processors, 1e12 for GPUs.
struct Units {
  double scale;
  std::string_view bytes;
  std::string_view operations;
  std::string_view limit;  // name of the limit of bytes
};
const Units& ChooseUnits(const Report& report) {
  static constexpr Units kProcessors = {1, "GB/s", "GFLOP/s", "limit"};
  static constexpr Units kGpu = {1e-3, "TB/s", "TFLOP/s", "copy"};
  return report.device.empty() ? kProcessors : kGpu;
}

// Returns the bandwidth with which the bytes of rows are compared, in GB/s.
double ByteLimit(const Report& report, const Roofline& roofline) {
  return report.device.empty() ? roofline.read_gb_s : roofline.copy_gb_s;
}

std::string MachineText(const Report& report) {
  if (!report.device.empty()) return report.device;
  return fmt::format("{} thread{}, {}, pages of {} KiB", report.n_threads,
                     report.n_threads == 1 ? "" : "s", report.isa, report.page_bytes / 1024);
}

std::string RooflineText(const Report& report) {
  const Roofline& limits = report.roofline;
  if (report.device.empty()) {
    return fmt::format("read {:.2f} GB/s, fma {:.1f} GFLOP/s", limits.read_gb_s,
                       limits.fma_gflop_s);
  }
  return fmt::format(
      "copy {:.2f} TB/s, fma {:.1f} TFLOP/s, read {:.2f} TB/s, launch {:.2f} us{}",
      1e-3 * limits.copy_gb_s, 1e-3 * limits.fma_gflop_s, 1e-3 * limits.read_gb_s, limits.launch_us,
      limits.graph_launch_us > 0 ? fmt::format(" ({:.2f} in a graph)", limits.graph_launch_us)
                                 : std::string());
}

}  // namespace

std::string ToTable(const Report& report) {
  const Units& units = ChooseUnits(report);
  std::string text = fmt::format(
      "model     {}, {:.2f} GB of weights\n"
      "machine   {}{}\n"
      "roofline  {}: the median of {} measurements between the repetitions\n"
      "          (best: {:.2f} and {:.1f})\n"
      "rows      {} repetition{} each after a warm-up, prefill in chunks of {}; rates at the "
      "median\n\n"
      "{:<18} {:>9} {:>9} {:>9}  {:>8} {:>7}  {:>9} {:>7}\n"
      "{:<18} {:>9} {:>9} {:>9}  {:>8} {:>7}  {:>9} {:>7}\n",
      report.model, report.weight_gb,
      report.n_ranks == 1 ? "" : fmt::format("{} ranks of ", report.n_ranks), MachineText(report),
      RooflineText(report), report.n_rooflines,
      units.scale * ByteLimit(report, report.best_roofline),
      units.scale * report.best_roofline.fma_gflop_s, report.n_repetitions,
      report.n_repetitions == 1 ? "" : "s", report.chunk, "", "tok/s", "", "", "read", "% of", "",
      "% of", "row", "min", "median", "max", units.bytes, units.limit, units.operations, "limit");
  for (const RowResult& row : report.rows) {
    fmt::format_to(std::back_inserter(text),
                   "{:<18} {:>9.2f} {:>9.2f} {:>9.2f}  {:>8.2f} {:>7.1f}  {:>9.2f} {:>7.1f}\n",
                   Name(row.row), row.tok_s.min, row.tok_s.median, row.tok_s.max,
                   units.scale * row.gb_s(),
                   report.device.empty() ? PercentRead(report, row) : PercentCopy(report, row),
                   units.scale * row.gflop_s(), PercentFma(report, row));
  }
  for (const RowResult& row : report.rows) {
    if (row.profile) text += ProfileTable(Name(row.row), *row.profile, report.roofline);
  }
  return text;
}

std::string ToJson(const Report& report) {
  JsonValue json = {{"model", report.model},
                    {"weight_gb", report.weight_gb},
                    {"ranks", report.n_ranks},
                    {"threads", report.n_threads},
                    {"isa", report.isa},
                    {"chunk", report.chunk},
                    {"repetitions", report.n_repetitions},
                    {"roofline", ToJson(report.roofline)},
                    {"roofline_best", ToJson(report.best_roofline)},
                    {"roofline_measurements", report.n_rooflines},
                    {"rows", JsonValue::Array()}};
  if (report.page_bytes > 0) json["page_bytes"] = report.page_bytes;
  if (!report.device.empty()) json["device"] = report.device;
  for (const RowResult& row : report.rows) {
    json["rows"].push_back(ToJson(report, row));
  }
  // A directory may have any bytes for a name.
  return WriteJson(json, 2) + "\n";
}

std::string ToCsv(const Report& report) {
  std::string text =
      "name,tok_s_min,tok_s_median,tok_s_max,gb_s,percent_read,gflop_s,percent_fma,gb_per_token,"
      "gflop_per_token,experts_per_layer,model,ranks,threads,isa,page_bytes,chunk,repetitions,read_"
      "gb_s,"
      "fma_gflop_s\n";
  for (const RowResult& row : report.rows) {
    fmt::format_to(
        std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
        Name(row.row), row.tok_s.min, row.tok_s.median, row.tok_s.max, row.gb_s(),
        PercentRead(report, row), row.gflop_s(), PercentFma(report, row), row.gb_per_token,
        row.gflop_per_token, row.experts_per_layer, CsvField(report.model), report.n_ranks,
        report.n_threads, report.isa, report.page_bytes, report.chunk, report.n_repetitions,
        report.roofline.read_gb_s, report.roofline.fma_gflop_s);
  }
  return text;
}

std::string ToSvg(const Report& report) {
  measure::LineChart chart = {
      .title = report.model,
      .subtitle =
          fmt::format("{}; the machine reads {:.1f} GB/s and does {:.0f} GFLOP/s",
                      MachineText(report), report.roofline.read_gb_s, report.roofline.fma_gflop_s)};
  for (const auto& [kind, title] : {std::pair(RowSpec::Kind::kDecode, "Decoding, all sequences"),
                                    std::pair(RowSpec::Kind::kPrefill, "Prefill")}) {
    std::vector<ChartLine> lines = MakeLines(report, kind);
    if (!lines.empty()) {
      chart.panels.push_back({.title = title,
                              .x_label = "tokens in the cache before",
                              .y_label = "tokens per second",
                              .lines = std::move(lines)});
    }
  }
  return measure::ToSvg(chart);
}

}  // namespace fathom::measure::bench
