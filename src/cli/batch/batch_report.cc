#include "cli/batch/batch_report.h"

#include <fmt/format.h>

namespace fathom::cli {
namespace {

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
  const std::string kept = n_kept == 0 ? "" : fmt::format(" ({} kept from before)", n_kept);
  return fmt::format(
      "{} of {} requests{}, {} {}; tokens: prompt {} ({} cached), generated {}; {:.1f} s, {:.1f} "
      "prompt tokens/s, {:.1f} generated tokens/s",
      totals.n_done + n_kept, plan.n_lines, kept, totals.n_errors,
      totals.n_errors == 1 ? "error" : "errors", totals.usage.prompt_tokens,
      totals.usage.cached_tokens, totals.n_generated, seconds,
      PerSecond(totals.usage.prompt_tokens, seconds), PerSecond(totals.n_generated, seconds));
}

}  // namespace fathom::cli
