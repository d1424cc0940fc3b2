// PendingMask: a mask of a constrained sequence, from its request until it is ready.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "constraint/constraint.h"

namespace fathom::engine {

class MaskPool;

// The mask after some tokens of an answer: a function of constraint and tokens, so that no answer
// depends on when a mask is ready.
struct FoundMask {
  ConstraintState state;
  TokenMask mask;
  bool can_end = false;        // the answer may end here
  std::optional<Error> error;  // if set, no other field is valid
};

// The part that all masks of a sequence share.
struct MaskSource {
  std::shared_ptr<const Constraint> constraint;
  std::string owner{};  // Request::owner
};

// Shared by the pool and by the masks that follow. Until the mask is ready, all members that are
// not atomic belong to the thread that computes it; from then on they are constant.
class PendingMask {
 public:
  // Creates the mask after `token`, which follows `before`; without `before`, at the beginning.
  PendingMask(std::shared_ptr<const MaskSource> source, std::shared_ptr<PendingMask> before,
              Token token)
      : source_(std::move(source)), before_(std::move(before)), token_(token) {}

  // Any thread.
  bool IsReady() const { return ready_.load(std::memory_order_acquire); }
  // Requires IsReady.
  const FoundMask& found() const { return found_; }

 private:
  friend class AskedMask;
  friend class MaskPool;
  // Computes the mask; the mask before it must be ready.
  Status Compute(WorkPace* pace);

  const std::shared_ptr<const MaskSource> source_;
  std::shared_ptr<PendingMask> before_;  // null once the mask is ready
  const Token token_;
  FoundMask found_;
  double seconds_ = 0;  // processor time of the sequence's masks; recent masks weigh most
  // Masks to compute when this one is ready. Guarded by the pool.
  std::vector<std::shared_ptr<PendingMask>> next_;
  std::atomic<bool> is_dropped_ = false;  // no asker needs the mask any more
  std::atomic<bool> ready_ = false;
};

// A mask that was requested from a pool. When this object is destroyed, work on the mask ends,
// unless a mask that follows needs it. The pool must outlive this object.
class AskedMask {
 public:
  AskedMask(MaskPool& pool, std::shared_ptr<PendingMask> mask)
      : pool_(pool), mask_(std::move(mask)) {}
  ~AskedMask();
  AskedMask(const AskedMask&) = delete;
  AskedMask& operator=(const AskedMask&) = delete;

  // See PendingMask.
  bool IsReady() const { return mask_->IsReady(); }
  const FoundMask& found() const { return mask_->found(); }

 private:
  friend class MaskPool;
  MaskPool& pool_;
  std::shared_ptr<PendingMask> mask_;
};

}  // namespace fathom::engine
