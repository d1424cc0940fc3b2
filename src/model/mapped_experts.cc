#include "model/mapped_experts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "model/draft/drafters.h"
#include "model/weight_values.h"

namespace fathom::model {
namespace {

void RequestExpert(const ExpertWeights& expert) {
  for (const Weight* weight : {&expert.w1, &expert.w3, &expert.w2}) {
    AdviseReadAhead(weight->ScaleBytes());
    AdviseReadAhead(weight->Bytes());
  }
}

}  // namespace

MappedExperts::MappedExperts(Backend& backend, const ModelConfig& config, const Stage& stage)
    : backend_(backend),
      stage_(stage),
      n_layers_(config.num_hidden_layers),
      n_experts_(config.n_routed_experts),
      is_checked_(static_cast<std::size_t>(NumBlocks(config) * n_experts_), 0),
      n_unchecked_(static_cast<std::size_t>(NumBlocks(config)), n_experts_),
      sets_(n_unchecked_.size()) {
  fresh_.reserve(static_cast<std::size_t>(n_experts_));
}

Status MappedExperts::Bind(ModelWeights& weights, const BoundWeights& bound) {
  weights_ = &weights;
  if (bound.is_mapped) {
    read_ahead_ = BlockReadAhead(bound.checkpoint, stage_.end_layer);
  }
  return backend_.DeviceMemory() ? BindAll() : Status();
}

Status MappedExperts::BindAll() {
  std::vector<std::int32_t> ids;
  for (const std::int64_t block : LocalBlocks()) {
    const std::vector<ExpertWeights>& experts = Moe(block).experts;
    ids.clear();
    for (std::int32_t id = 0; id < std::ssize(experts); ++id) {
      if (experts[static_cast<std::size_t>(id)].w1.data != nullptr) {
        ids.push_back(id);
      }
    }
    if (Status checked = CheckScales(block, ids); !checked) return checked;
    BoundSet(block);
  }
  return backend_.Synchronize();
}

Status MappedExperts::BeginBlock(ForwardPass& /*pass*/, std::int64_t block) {
  read_ahead_.Request(block);
  read_ahead_.Request(block + 1);
  return {};
}

MoeWeights& MappedExperts::Moe(std::int64_t block) const {
  return block < n_layers_
             ? weights_->layers[static_cast<std::size_t>(block)].ffn
             : weights_->draft->blocks[static_cast<std::size_t>(block - n_layers_)].ffn;
}

std::vector<std::int64_t> MappedExperts::LocalBlocks() const {
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = stage_.first_layer; i < stage_.end_layer; ++i) {
    blocks.push_back(i);
  }
  if (stage_.is_last && weights_->draft) {
    for (const BlockWeights& block : weights_->draft->blocks) {
      blocks.push_back(block.index);
    }
  }
  return blocks;
}

void MappedExperts::SetPresent(std::int64_t block, std::span<const std::int32_t> experts) {
  sets_[static_cast<std::size_t>(block)].reset();
  n_unchecked_[static_cast<std::size_t>(block)] =
      std::count_if(experts.begin(), experts.end(),
                    [&](std::int32_t expert) { return IsChecked(block, expert) == 0; });
}

Result<ExpertLease> MappedExperts::Acquire(std::int64_t block, Matrix<std::int32_t> ids) {
  if (n_unchecked_[static_cast<std::size_t>(block)] > 0) {
    host_ids_.resize(static_cast<std::size_t>(ids.rows * ids.cols));
    backend_.Download(std::as_writable_bytes(std::span(host_ids_)), ids.data);
    if (Status done = backend_.Synchronize(); !done) return Unexpected(done.error());
    if (Status checked = CheckScales(block, host_ids_); !checked) {
      return Unexpected(checked.error());
    }
  }
  return ExpertLease{.experts = BoundSet(block), .ids = ids};
}

const ExpertSet& MappedExperts::BoundSet(std::int64_t block) {
  std::optional<ExpertSet>& set = sets_[static_cast<std::size_t>(block)];
  if (!set) {
    set = backend_.BindExperts(block, Moe(block).experts);
  }
  return *set;
}

Status MappedExperts::CheckScales(std::int64_t block, std::span<const std::int32_t> ids) {
  const MoeWeights& weights = Moe(block);
  fresh_.clear();
  for (const std::int32_t id : ids) {
    if (id == kRemoteExpert) continue;
    Check(id >= 0 && id < n_experts_, "Acquire: unknown expert");
    if (std::uint8_t& is_checked = IsChecked(block, id); is_checked == 0) {
      is_checked = 1;
      fresh_.push_back(id);
    }
  }
  for (const std::int32_t id : fresh_) {
    RequestExpert(weights.experts[static_cast<std::size_t>(id)]);
  }
  Status status;
  for (const std::int32_t id : fresh_) {
    Status valid =
        CheckExpertScales(weights.experts[static_cast<std::size_t>(id)], weights.name, id);
    if (!valid) {
      IsChecked(block, id) = 0;
      status = std::move(valid);
    }
    n_unchecked_[static_cast<std::size_t>(block)] -= IsChecked(block, id);
  }
  return status;
}

}  // namespace fathom::model
