#include "engine/constraint_path.h"

#include <utility>

#include "base/check.h"

namespace fathom {

ConstraintPath::ConstraintPath(std::shared_ptr<const Constraint> constraint, MaskPool& pool)
    : constraint_(std::move(constraint)), pool_(&pool) {
  masks_.push_back(Ask(nullptr, 0));
}

ConstraintPath::~ConstraintPath() {
  KeepMasks(0, 0);
  pool_->Drop(std::move(constraint_));
}

// Removes all masks but those from `first` to before `end`.
void ConstraintPath::KeepMasks(std::size_t first, std::size_t end) {
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    if (i < first || i >= end) pool_->Drop(std::move(masks_[i].mask));
  }
  masks_.erase(masks_.begin() + static_cast<std::ptrdiff_t>(end), masks_.end());
  masks_.erase(masks_.begin(), masks_.begin() + static_cast<std::ptrdiff_t>(first));
}

ConstraintPath::Place ConstraintPath::Ask(std::shared_ptr<const PendingMask> before, Token token) {
  Place place = {token, std::make_shared<PendingMask>(constraint_, std::move(before), token)};
  pool_->Ask(place.mask);
  return place;
}

void ConstraintPath::Accept(Token token) {
  if (n_drafts() > 0 && masks_[1].token == token) {
    KeepMasks(1, masks_.size());
    return;
  }
  masks_.push_back(Ask(masks_.front().mask, token));
  KeepMasks(masks_.size() - 1, masks_.size());
}

void ConstraintPath::AddDraft(Token token) { masks_.push_back(Ask(masks_.back().mask, token)); }

const FoundMask& ConstraintPath::Find(std::size_t n_drafts) const {
  Check(n_drafts < masks_.size(), "a mask behind drafts that were added");
  const PendingMask& mask = *masks_[n_drafts].mask;
  pool_->Wait(mask);
  return mask.found();
}

bool ConstraintPath::WaitUntil(std::chrono::steady_clock::time_point deadline,
                               std::size_t n_drafts) const {
  Check(n_drafts < masks_.size(), "a mask behind drafts that were added");
  return pool_->WaitUntil(*masks_[n_drafts].mask, deadline);
}

}  // namespace fathom
