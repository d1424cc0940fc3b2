#include "kernels/profile_recorder.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace fathom::kernels {
namespace {

// A sum is known if all of its terms are.
void AddTo(std::optional<double>& sum, std::optional<double> term) {
  sum = sum && term ? std::optional(*sum + *term) : std::nullopt;
}

}  // namespace

void ProfileRecorder::EnterPart(std::string_view part) {
  const auto found = std::ranges::find(parts_, part);
  part_ = static_cast<std::size_t>(found - parts_.begin());
  if (found == parts_.end()) parts_.emplace_back(part);
}

void ProfileRecorder::Add(std::size_t part, std::string_view name, double seconds,
                          const WorkCost& cost) {
  std::string key = parts_[part] + '\n';
  key += name;
  const auto [entry, is_new] = rows_.try_emplace(std::move(key), profile_.rows.size());
  if (is_new) {
    profile_.rows.push_back(
        {.part = parts_[part], .name = std::string(name), .cost = {.bytes = 0.0, .flops = 0.0}});
  }
  ProfileRow& row = profile_.rows[entry->second];
  ++row.n;
  row.seconds += seconds;
  AddTo(row.cost.bytes, cost.bytes);
  AddTo(row.cost.flops, cost.flops);
  profile_.events.push_back({row.part, row.name, end_, seconds});
  end_ += seconds;
}

void ProfileRecorder::AddBetween(double seconds) { Add(0, kBetween, seconds, {}); }

Profile ProfileRecorder::Take() {
  Profile profile = std::move(profile_);
  Clear();
  std::ranges::stable_sort(profile.rows, std::ranges::greater(), &ProfileRow::seconds);
  return profile;
}

}  // namespace fathom::kernels
