#include "engine/constraint_path.h"

#include <utility>

#include "base/check.h"

namespace fathom::engine {

ConstraintPath::ConstraintPath(std::shared_ptr<const Constraint> constraint, std::string owner,
                               MaskPool& pool)
    : source_(std::make_shared<const MaskSource>(
          MaskSource{.constraint = std::move(constraint), .owner = std::move(owner)})),
      pool_(&pool) {
  masks_.push_back({0, pool_->Ask(source_, nullptr, 0)});
}

ConstraintPath::~ConstraintPath() { pool_->Drop(std::move(source_)); }

// Removes all masks outside [first, end).
void ConstraintPath::KeepMasks(std::size_t first, std::size_t end) {
  masks_.erase(masks_.begin() + static_cast<std::ptrdiff_t>(end), masks_.end());
  masks_.erase(masks_.begin(), masks_.begin() + static_cast<std::ptrdiff_t>(first));
}

void ConstraintPath::Accept(Token token) {
  if (n_drafts() > 0 && masks_[1].token == token) {
    KeepMasks(1, masks_.size());
    return;
  }
  masks_.push_back({token, pool_->Ask(source_, masks_.front().mask.get(), token)});
  KeepMasks(masks_.size() - 1, masks_.size());
}

void ConstraintPath::AddDraft(Token token) {
  masks_.push_back({token, pool_->Ask(source_, masks_.back().mask.get(), token)});
}

const FoundMask& ConstraintPath::Find(std::size_t n_drafts) const {
  Check(n_drafts < masks_.size(), "a mask behind drafts that were added");
  const AskedMask& mask = *masks_[n_drafts].mask;
  pool_->Wait(mask);
  return mask.found();
}

bool ConstraintPath::WaitUntil(std::chrono::steady_clock::time_point deadline,
                               std::size_t n_drafts) const {
  Check(n_drafts < masks_.size(), "a mask behind drafts that were added");
  return pool_->WaitUntil(*masks_[n_drafts].mask, deadline);
}

}  // namespace fathom::engine
