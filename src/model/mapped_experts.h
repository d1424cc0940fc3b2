// MappedExperts: experts that stay where they were bound, in files or in memory.
//
// Routed experts are nearly all of a checkpoint, and a prompt needs few of them at first. Reading
// their scales at load would read a sixteenth of the files; so an expert's scales are checked when
// the expert is first acquired, and all experts of a call are requested from disk before the first
// of them is read. The weights that every token reads are requested while the block before theirs
// runs: pages that are touched one after the other are read from disk in small pieces. A device
// receives all its experts when they are bound, so that all can be checked then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "model/block_read_ahead.h"
#include "model/expert_store.h"
#include "model/tensor_parallel.h"

namespace fathom::model {

// Allocates in the constructor and in Bind only. The backend must outlive this object.
class MappedExperts : public ExpertStore {
 public:
  MappedExperts(Backend& backend, const ModelConfig& config, const Stage& stage);

  Status Bind(ModelWeights& weights, const BoundWeights& bound) override;
  Status BeginBlock(ForwardPass& pass, std::int64_t block) override;
  Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) override;

 protected:
  // Sets the experts of `block` that this process has, each once; before the first call, it has
  // all. Experts that were checked before stay checked: their values are the same in any memory.
  void SetPresent(std::int64_t block, std::span<const std::int32_t> experts);
  MoeWeights& Moe(std::int64_t block) const;
  std::int64_t n_blocks() const { return std::ssize(sets_); }  // NumBlocks
  std::int64_t n_experts() const { return n_experts_; }
  // Returns the blocks that this process has.
  std::vector<std::int64_t> LocalBlocks() const;
  Backend& backend_;
  ModelWeights* weights_ = nullptr;  // null before Bind

 private:
  // Checks and binds all experts that this process has.
  Status BindAll();
  Status CheckScales(std::int64_t block, std::span<const std::int32_t> ids);
  const ExpertSet& BoundSet(std::int64_t block);
  std::uint8_t& IsChecked(std::int64_t block, std::int32_t expert) {
    return is_checked_[static_cast<std::size_t>(block * n_experts_ + expert)];
  }

  Stage stage_;
  std::int64_t n_layers_;
  std::int64_t n_experts_;
  std::vector<std::uint8_t> is_checked_;   // [blocks, experts]
  std::vector<std::int64_t> n_unchecked_;  // per block: present experts that are unchecked
  std::vector<std::int32_t> fresh_;        // scratch: experts of a block to check
  std::vector<std::int32_t> host_ids_;     // scratch of Acquire
  // One per block, bound at the first use after its experts have changed.
  std::vector<std::optional<ExpertSet>> sets_;
  BlockReadAhead read_ahead_;
};

}  // namespace fathom::model
