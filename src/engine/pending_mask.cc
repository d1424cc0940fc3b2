#include "engine/pending_mask.h"

#include "engine/mask_pool.h"

namespace fathom::engine {

// A state stays alive until the mask is destroyed, even after an error: its destruction may wait
// for a lock.
Status PendingMask::Compute(WorkPace* pace) {
  const Constraint& constraint = *source_->constraint;
  found_.error.reset();  // error of the asker's attempt
  if (before_ == nullptr) {
    found_.state = constraint.Begin();
  } else {
    const FoundMask& before = before_->found();
    if (before.error) return Unexpected(*before.error);
    Result<ConstraintState> state = constraint.Advance(before.state, token_, pace);
    if (!state) return Unexpected(state.error());
    found_.state = *std::move(state);
  }
  Result<TokenMask> mask = constraint.Mask(found_.state, pace);
  if (!mask) return Unexpected(mask.error());
  found_.mask = *std::move(mask);
  found_.can_end = constraint.CanEnd(found_.state);
  return {};
}

AskedMask::~AskedMask() {
  mask_->is_dropped_ = true;
  pool_.DropMask(std::move(mask_));
}

}  // namespace fathom::engine
