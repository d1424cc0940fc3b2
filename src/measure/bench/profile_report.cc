#include "measure/bench/profile_report.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>

namespace fathom::bench {
namespace {

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

}  // namespace

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

}  // namespace fathom::bench
