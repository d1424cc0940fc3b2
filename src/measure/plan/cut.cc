#include "measure/plan/cut.h"

#include <fmt/format.h>

namespace fathom::plan {
namespace {

// Numbers that divide n, ascending.
std::vector<int> Divisors(std::int64_t n) {
  std::vector<int> divisors;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) divisors.push_back(static_cast<int>(i));
  }
  return divisors;
}

bool IsLegal(const ModelConfig& config, const Cut& cut) {
  // Data ranks that share no experts are replicas; a rank alone shares them with nobody.
  if (cut.expert_parallel ? cut.stage_ranks() == 1 : cut.n_data > 1) return false;
  if (config.n_routed_experts % cut.n_expert() != 0) return false;
  RankCounts counts = cut.counts();
  if (!cut.is_estimate()) {
    return CheckCounts(config, counts, cut.replica_ranks()).has_value();
  }
  counts.expert_parallel = false;
  return CheckCounts(config, counts, cut.n_tensor * cut.n_stages).has_value() &&
         config.vocab_size % cut.stage_ranks() == 0;
}

}  // namespace

std::vector<Cut> LegalCuts(const ModelConfig& config, std::int64_t n_devices) {
  std::vector<Cut> cuts;
  for (const int n_ranks : Divisors(n_devices)) {
    for (const int n_stages : Divisors(n_ranks)) {
      for (const int n_tensor : Divisors(n_ranks / n_stages)) {
        for (const bool expert_parallel : {false, true}) {
          const Cut cut = {.n_tensor = n_tensor,
                           .n_stages = n_stages,
                           .n_data = n_ranks / n_stages / n_tensor,
                           .expert_parallel = expert_parallel,
                           .n_replicas = static_cast<int>(n_devices) / n_ranks};
          if (IsLegal(config, cut)) cuts.push_back(cut);
        }
      }
    }
  }
  return cuts;
}

std::optional<Cut> WithDividedRows(const ModelConfig& config, const Cut& cut) {
  Cut divided = cut;
  divided.decode_context_parallel = true;
  if (cut.decode_context_parallel || cut.n_data > 1 || !IsLegal(config, divided)) {
    return std::nullopt;
  }
  return divided;
}

std::string Flags(const Cut& cut) {
  return fmt::format("--tp {} --pp {} --ep {}{}{}", cut.n_tensor, cut.n_stages, cut.n_expert(),
                     cut.n_data > 1 ? " --dp-attention" : "",
                     cut.decode_context_parallel ? " --decode-context-parallel" : "");
}

}  // namespace fathom::plan
