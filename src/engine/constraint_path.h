// ConstraintPath: the masks of one sequence: behind its tokens, and behind the drafts ahead of them
// (docs/spec/constrained.md 3.6).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "constraint/constraint.h"
#include "engine/mask_pool.h"

namespace fathom {

// Copies share what is known: the choices of a request begin as copies. Engine thread only; the
// pool must outlive the path.
class ConstraintPath {
 public:
  // Begins in front of the first token of the answer. Asks for the first mask. `owner`:
  // Request::owner.
  ConstraintPath(std::shared_ptr<const Constraint> constraint, std::string owner, MaskPool& pool);
  ConstraintPath(const ConstraintPath&) = default;
  ConstraintPath& operator=(const ConstraintPath&) = delete;
  ~ConstraintPath();

  // Moves behind a token that the mask allows and that does not end the answer, and asks for the
  // mask there, unless the token was drafted. Other drafts are forgotten.
  void Accept(Token token);
  // Adds a draft behind the last one, likewise.
  void AddDraft(Token token);
  void ForgetDrafts() { KeepMasks(0, 1); }
  std::size_t n_drafts() const { return masks_.size() - 1; }

  // The mask behind the accepted tokens and `n_drafts` drafts. Waits until it is ready.
  const FoundMask& Find(std::size_t n_drafts = 0) const;
  bool IsReady() const { return masks_.front().mask->IsReady(); }
  // Waits until that mask is ready; false: the deadline has passed before.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, std::size_t n_drafts = 0) const;

 private:
  struct Place {
    Token token = 0;  // before it
    std::shared_ptr<const AskedMask> mask;
  };
  void KeepMasks(std::size_t first, std::size_t end);

  std::shared_ptr<const MaskSource> source_;
  MaskPool* pool_;
  std::vector<Place> masks_;  // behind the accepted tokens, then behind each draft
};

}  // namespace fathom
