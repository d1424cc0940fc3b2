#include "cli/request_stats.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/gigabytes.h"

namespace fathom::cli {

double PrefillRate(const RequestStats& stats) {
  const std::int64_t n_tokens = stats.prompt_tokens - stats.cached_tokens;
  return stats.prefill_seconds > 0 ? static_cast<double>(n_tokens) / stats.prefill_seconds : 0;
}

double DecodeRate(const RequestStats& stats) {
  // The first token comes out of the prefill.
  const std::int64_t n_tokens = std::max<std::int64_t>(stats.generated_tokens - 1, 0);
  return stats.decode_seconds > 0 ? static_cast<double>(n_tokens) / stats.decode_seconds : 0;
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

std::string DescribeStreaming(const StreamingCounts& counts) {
  const auto over = [](double value, double by) { return by > 0 ? value / by : 0; };
  const auto rate = [&](std::int64_t hits, std::int64_t uses) {
    return over(static_cast<double>(hits), static_cast<double>(uses));
  };
  const auto tokens = static_cast<double>(counts.tokens);
  const double gigabytes = Gigabytes(counts.read_bytes);
  const std::string busy = counts.stall_seconds > 0
                               ? fmt::format(" (the disk busy {:.0f} % of it, {:.2f} GB/s)",
                                             100 * counts.stall_busy_seconds / counts.stall_seconds,
                                             Gigabytes(counts.stall_bytes) / counts.stall_seconds)
                               : "";
  const std::string hash =
      counts.hash_uses > 0
          ? fmt::format(" (hash layers {:.2f})", rate(counts.hash_hits, counts.hash_uses))
          : "";
  return fmt::format(
      "experts from disk: hit rate {:.2f}{}, {:.3f} GB read per token at {:.2f} GB/s, {:.1f} ms "
      "waited per token{}; pool {} of {} slots, {:.1f} GB",
      rate(counts.hits(), counts.uses()), hash, over(gigabytes, tokens),
      over(gigabytes, counts.disk_busy_seconds), over(1e3 * counts.stall_seconds, tokens), busy,
      counts.used_slots, counts.slots, Gigabytes(counts.slots * counts.slot_bytes));
}

}  // namespace fathom::cli
