#include "model/mapped_experts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "model/draft/drafters.h"
#include "model/weight_values.h"

namespace fathom {
namespace {

std::array<std::pair<std::string_view, const Weight*>, 3> MatricesOf(const ExpertWeights& expert) {
  return {{{"w1", &expert.w1}, {"w3", &expert.w3}, {"w2", &expert.w2}}};
}

// A step reads single rows or experts of these tensors, and all others as a whole.
bool IsReadInParts(std::string_view name) {
  return name.find(".ffn.experts.") != name.npos || name.find("tid2eid") != name.npos;
}

std::vector<std::vector<std::span<const std::byte>>> BytesOfLayers(const Checkpoint& checkpoint,
                                                                   std::int64_t n_layers) {
  std::vector<std::vector<std::span<const std::byte>>> layers(static_cast<std::size_t>(n_layers));
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const std::optional<std::int64_t> layer = ParseLayer(tensor.name);
    if (!layer || *layer >= n_layers || IsReadInParts(tensor.name)) continue;
    auto& ranges = layers[static_cast<std::size_t>(*layer)];
    const std::span<const std::byte> bytes = tensor.view.bytes;
    if (!ranges.empty() && ranges.back().data() + ranges.back().size() == bytes.data()) {
      ranges.back() = {ranges.back().data(), ranges.back().size() + bytes.size()};
    } else {
      ranges.push_back(bytes);
    }
  }
  return layers;
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

Status MappedExperts::Bind(ModelWeights& weights, const Checkpoint* mapped, bool /*lock*/) {
  weights_ = &weights;
  if (mapped != nullptr) {
    block_bytes_ = BytesOfLayers(*mapped, n_layers_);
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
    SetOf(block);
  }
  return backend_.Synchronize();
}

void MappedExperts::RequestBlock(std::int64_t block) {
  if (block < std::min(stage_.end_layer, std::ssize(block_bytes_))) {
    for (const std::span<const std::byte> bytes :
         std::exchange(block_bytes_[static_cast<std::size_t>(block)], {})) {
      AdviseReadAhead(bytes);
    }
  }
}

Status MappedExperts::BeginBlock(std::int64_t block) {
  RequestBlock(block);
  RequestBlock(block + 1);
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

Result<ExpertLease> MappedExperts::Acquire(std::int64_t block, Matrix<const std::int32_t> ids) {
  if (n_unchecked_[static_cast<std::size_t>(block)] > 0) {
    host_ids_.resize(static_cast<std::size_t>(ids.rows * ids.cols));
    backend_.Download(std::as_writable_bytes(std::span(host_ids_)), ids.data);
    if (Status done = backend_.Synchronize(); !done) return Unexpected(done.error());
    if (Status checked = CheckScales(block, host_ids_); !checked) {
      return Unexpected(checked.error());
    }
  }
  return ExpertLease{SetOf(block)};
}

const ExpertSet& MappedExperts::SetOf(std::int64_t block) {
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
        IsChecked(block, id) = 0;
        status = MakeError(ErrorCode::kInvalidData, "{}.experts.{}.{}.scale: {}", weights.name, id,
                           name, *bad);
      }
    }
    n_unchecked_[static_cast<std::size_t>(block)] -= IsChecked(block, id);
  }
  return status;
}

}  // namespace fathom
