#include "measure/bench/profile_report.h"

#include <fmt/format.h>

#include <iterator>

namespace fathom::bench {
namespace {

// Returns the speed of a row that moved bytes and took time.
double GigabytesPerSecond(const ProfileRow& row) { return 1e-9 * *row.bytes / row.seconds; }

bool HasSpeed(const ProfileRow& row) { return row.bytes && row.seconds > 0; }

}  // namespace

std::string ProfileTable(const std::string& row, const Profile& profile, const Roofline& roofline) {
  const double seconds = profile.seconds();
  std::string text = fmt::format("\n{:<24} {:>8} {:>12} {:>6}  {:>10} {:>8} {:>7}\n", row, "n",
                                 "us", "%", "MB", "TB/s", "% copy");
  for (const ProfileRow& one : profile.rows) {
    fmt::format_to(std::back_inserter(text), "{:<24} {:>8} {:>12.1f} {:>6.1f}", one.name, one.n,
                   1e6 * one.seconds, seconds > 0 ? 100 * one.seconds / seconds : 0.0);
    if (HasSpeed(one)) {
      const double gb_s = GigabytesPerSecond(one);
      fmt::format_to(std::back_inserter(text), "  {:>10.3f} {:>8.3f} {:>7.1f}", 1e-6 * *one.bytes,
                     1e-3 * gb_s, 100 * gb_s / roofline.copy_gb_s);
    }
    text += '\n';
  }
  return text + fmt::format("{:<24} {:>8} {:>12.1f} {:>6.1f}\n", "all", "", 1e6 * seconds, 100.0);
}

JsonValue ProfileJson(const Profile& profile, const Roofline& roofline) {
  JsonValue kernels = JsonValue::Array();
  for (const ProfileRow& one : profile.rows) {
    JsonValue kernel = {{"name", one.name}, {"n", one.n}, {"seconds", one.seconds}};
    if (HasSpeed(one)) {
      const double gb_s = GigabytesPerSecond(one);
      kernel["bytes"] = *one.bytes;
      kernel["gb_s"] = gb_s;
      kernel["percent_copy"] = 100 * gb_s / roofline.copy_gb_s;
    }
    kernels.push_back(std::move(kernel));
  }
  return {{"seconds", profile.seconds()}, {"kernels", std::move(kernels)}};
}

}  // namespace fathom::bench
