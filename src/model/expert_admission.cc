#include "model/expert_admission.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "kernels/backend.h"
#include "model/weight_values.h"

namespace fathom {
namespace {

std::array<std::pair<std::string_view, const Weight*>, 3> MatricesOf(const ExpertWeights& expert) {
  return {{{"w1", &expert.w1}, {"w3", &expert.w3}, {"w2", &expert.w2}}};
}

}  // namespace

ExpertAdmission::ExpertAdmission(std::int64_t n_blocks, std::int64_t n_experts)
    : n_experts_(n_experts),
      admitted_(static_cast<std::size_t>(n_blocks * n_experts), 0),
      n_left_(static_cast<std::size_t>(n_blocks), n_experts) {
  fresh_.reserve(static_cast<std::size_t>(n_experts));
}

void ExpertAdmission::SetHere(std::int64_t block, std::span<const std::int32_t> experts) {
  n_left_[static_cast<std::size_t>(block)] =
      std::count_if(experts.begin(), experts.end(),
                    [&](std::int32_t expert) { return Admitted(block, expert) == 0; });
}

Status ExpertAdmission::Admit(std::int64_t block, const MoeWeights& weights,
                              Matrix<const std::int32_t> ids) {
  fresh_.clear();
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    const std::int32_t id = ids.data[i];
    if (id == kRemoteExpert) {
      continue;
    }
    Check(id >= 0 && id < n_experts_, "Admit: unknown expert");
    if (std::uint8_t& admitted = Admitted(block, id); admitted == 0) {
      admitted = 1;
      fresh_.push_back(id);
    }
  }
  for (const std::int32_t id : fresh_) {
    for (const auto& [name, weight] : MatricesOf(weights.experts[static_cast<std::size_t>(id)])) {
      AdviseReadAhead(weight->ScaleBytes());
      AdviseReadAhead(weight->Bytes());
    }
  }
  Status status;
  for (const std::int32_t id : fresh_) {
    for (const auto& [name, weight] : MatricesOf(weights.experts[static_cast<std::size_t>(id)])) {
      const auto bad = FindBadScale(weight->ScaleBytes(), weight->scale_format);
      if (bad) {
        Admitted(block, id) = 0;
        status = MakeError(ErrorCode::kInvalidData, "{}.experts.{}.{}.scale: {}", weights.name, id,
                           name, *bad);
      }
    }
    n_left_[static_cast<std::size_t>(block)] -= Admitted(block, id);
  }
  return status;
}

}  // namespace fathom
