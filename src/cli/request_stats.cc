#include "cli/request_stats.h"

#include <fmt/format.h>

#include <algorithm>

namespace fathom::cli {

double PrefillRate(const RequestStats& stats) {
  const std::int64_t n_tokens = stats.prompt_tokens - stats.cached_tokens;
  return stats.prefill_seconds > 0 ? static_cast<double>(n_tokens) / stats.prefill_seconds : 0;
}

double DecodeRate(const RequestStats& stats) {
  // The prefill yields the first token.
  const std::int64_t n_tokens = std::max<std::int64_t>(stats.generated_tokens - 1, 0);
  return stats.decode_seconds > 0 ? static_cast<double>(n_tokens) / stats.decode_seconds : 0;
}

double PromptShare(const MetricsSnapshot& now, std::int64_t n_prompt) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double of_pass =
      now.pass.layers == 0
          ? 0
          : number(now.pass_tokens) * number(now.pass.layers_done) / number(now.pass.layers);
  return (number(now.prompt_tokens + now.cached_tokens) + of_pass) / number(n_prompt);
}

std::string DescribeStats(double load_seconds, const RequestStats& stats) {
  const std::string cached =
      stats.cached_tokens > 0 ? fmt::format(" ({} cached)", stats.cached_tokens) : "";
  return fmt::format(
      "load {:.2f} s; prompt {} tokens{}, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; "
      "seed {}",
      load_seconds, stats.prompt_tokens, cached, PrefillRate(stats), stats.generated_tokens,
      DecodeRate(stats), stats.seed);
}

}  // namespace fathom::cli
