// ConstraintPath: the masks of one sequence, after its tokens and after the drafts that follow them
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

namespace fathom::engine {

// Copies share the known masks: the choices of a request begin as copies. Engine thread only; the
// pool must outlive the path.
class ConstraintPath {
 public:
  // Begins before the first token of the answer and requests the first mask. `owner`:
  // Request::owner.
  ConstraintPath(std::shared_ptr<const Constraint> constraint, std::string owner, MaskPool& pool);
  ConstraintPath(const ConstraintPath&) = default;
  ConstraintPath& operator=(const ConstraintPath&) = delete;
  ~ConstraintPath();

  // Advances by a token that the mask allows and that does not end the answer. Requests the next
  // mask unless the token was drafted. Removes all other drafts.
  void Accept(Token token);
  // Appends a draft after the last one, and requests the mask after it.
  void AddDraft(Token token);
  void ForgetDrafts() { KeepMasks(0, 1); }
  std::size_t n_drafts() const { return masks_.size() - 1; }

  // Returns the mask after the accepted tokens and `n_drafts` drafts. Waits until it is ready.
  const FoundMask& Find(std::size_t n_drafts = 0) const;
  bool IsReady() const { return masks_.front().mask->IsReady(); }
  // Waits until that mask is ready. Returns false if the deadline passes first.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline, std::size_t n_drafts = 0) const;

 private:
  struct Place {
    Token token = 0;  // the token before this place
    std::shared_ptr<const AskedMask> mask;
  };
  void KeepMasks(std::size_t first, std::size_t end);

  std::shared_ptr<const MaskSource> source_;
  MaskPool* pool_;
  std::vector<Place> masks_;  // after the accepted tokens, then after each draft
};

}  // namespace fathom::engine
