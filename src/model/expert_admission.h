// ExpertAdmission: what happens to a routed expert before its first product.
//
// Routed experts are nearly all of a checkpoint, and a prompt needs few of them at first. Reading
// their scales at load would read a sixteenth of the files; so an expert's scales are checked when
// it is first chosen, and the disk is asked for all experts that a layer needs before the first of
// them is waited for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "model/weights.h"

namespace fathom {

// Remembers which experts have been admitted. One thread at a time. Allocates at construction only.
class ExpertAdmission {
 public:
  // n_blocks counts the MTP block, the last one. All experts are here until SetHere is told others.
  ExpertAdmission(std::int64_t n_blocks, std::int64_t n_experts);

  // The experts of `block` that this rank has, each once; those admitted before stay so: their
  // values are the same wherever they lie.
  void SetHere(std::int64_t block, std::span<const std::int32_t> experts);

  // Whether every expert of the block has been admitted: then Admit need not be called.
  bool Complete(std::int64_t block) const { return n_left_[static_cast<std::size_t>(block)] == 0; }

  // Admits the experts of `block` that `ids` names: each id is that of an expert, or kRemoteExpert.
  // Error: a scale is not a number; the message names the tensor, and the expert is not admitted.
  Status Admit(std::int64_t block, const MoeWeights& weights, Matrix<const std::int32_t> ids);

 private:
  std::uint8_t& Admitted(std::int64_t block, std::int32_t expert) {
    return admitted_[static_cast<std::size_t>(block * n_experts_ + expert)];
  }

  std::int64_t n_experts_;
  std::vector<std::uint8_t> admitted_;  // [n_blocks, n_experts]
  std::vector<std::int64_t> n_left_;    // per block: experts here that are not admitted
  std::vector<std::int32_t> fresh_;     // room for all experts of a block
};

}  // namespace fathom
