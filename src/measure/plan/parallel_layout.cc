#include "measure/plan/parallel_layout.h"

#include <fmt/format.h>

namespace fathom::measure::plan {
namespace {

// Returns the divisors of n, ascending.
std::vector<int> Divisors(std::int64_t n) {
  std::vector<int> divisors;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) divisors.push_back(static_cast<int>(i));
  }
  return divisors;
}

bool IsLegal(const ModelConfig& config, const ParallelLayout& layout) {
  // Data ranks that share no experts are replicas, and a single rank has no other rank to share
  // experts with.
  if (layout.expert_parallel ? layout.stage_ranks() == 1 : layout.n_data > 1) return false;
  if (config.n_routed_experts % layout.n_expert() != 0) return false;
  RankCounts counts = layout.counts();
  if (!layout.is_estimate()) return CheckCounts(config, counts, layout.replica_ranks()).has_value();
  counts.expert_parallel = false;
  return CheckCounts(config, counts, layout.n_tensor * layout.n_stages).has_value() &&
         config.vocab_size % layout.stage_ranks() == 0;
}

}  // namespace

std::vector<ParallelLayout> LegalLayouts(const ModelConfig& config, std::int64_t n_devices) {
  std::vector<ParallelLayout> layouts;
  for (const int n_ranks : Divisors(n_devices)) {
    for (const int n_stages : Divisors(n_ranks)) {
      for (const int n_tensor : Divisors(n_ranks / n_stages)) {
        for (const bool expert_parallel : {false, true}) {
          const ParallelLayout layout = {.n_tensor = n_tensor,
                                         .n_stages = n_stages,
                                         .n_data = n_ranks / n_stages / n_tensor,
                                         .expert_parallel = expert_parallel,
                                         .n_replicas = static_cast<int>(n_devices) / n_ranks};
          if (IsLegal(config, layout)) layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

std::optional<ParallelLayout> WithDividedRows(const ModelConfig& config,
                                              const ParallelLayout& layout) {
  ParallelLayout divided = layout;
  divided.decode_context_parallel = true;
  if (layout.decode_context_parallel || layout.n_data > 1 || !IsLegal(config, divided)) {
    return std::nullopt;
  }
  return divided;
}

std::string Flags(const ParallelLayout& layout) {
  return fmt::format("--tp {} --pp {} --ep {}{}{}", layout.n_tensor, layout.n_stages,
                     layout.n_expert(), layout.n_data > 1 ? " --dp-attention" : "",
                     layout.decode_context_parallel ? " --decode-context-parallel" : "");
}

}  // namespace fathom::measure::plan
