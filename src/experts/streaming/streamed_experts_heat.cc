// StreamedExperts: the use counts of experts, which are kept from run to run.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "experts/streaming/streamed_experts.h"

namespace fathom::experts {

void StreamedExperts::WarmUp() {
  const std::vector<std::uint32_t>& heat = options_.heat;
  if (heat.empty()) return;
  if (heat.size() != is_checked_.size()) {
    if (options_.warn) {
      options_.warn(
          fmt::format("uses of experts in earlier runs: expected {} experts, found {}; "
                      "they are ignored",
                      is_checked_.size(), heat.size()));
    }
    return;
  }
  std::vector<std::uint32_t> hottest;
  for (std::uint32_t key = 0; key < heat.size(); ++key) {
    const bool is_known = key < files().n_keys();
    const bool is_elsewhere = is_known && files().Ranges(key).empty();  // on another rank
    if (heat[key] == 0 || is_elsewhere) continue;
    directory_.Use(key, heat[key], /*is_scan=*/true);
    if (is_known) hottest.push_back(key);
  }
  std::ranges::stable_sort(hottest, std::greater(), [&](std::uint32_t key) { return heat[key]; });
  const std::int64_t room = options_.slots - FewestExpertSlots(experts_per_token_);
  hottest.resize(std::min(hottest.size(), static_cast<std::size_t>(room)));
  std::ranges::sort(hottest, {}, [this](std::uint32_t key) {
    const FileRange& range = files().Ranges(key).front();
    return std::pair(range.file, range.offset);
  });
  for (const std::uint32_t key : hottest) StartRead(key, ReadUrgency::kAhead);
}

void StreamedExperts::SaveHeat() {
  last_save_ = Clock::now();
  if (!options_.save_heat) return;
  heat_.resize(is_checked_.size());
  for (std::uint32_t key = 0; key < heat_.size(); ++key) {
    heat_[key] = directory_.race().counts()[key];
  }
  options_.save_heat(heat_);
}

}  // namespace fathom::experts
