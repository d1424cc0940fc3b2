#include "constraint/work_meter.h"

namespace fathom::constraint {
namespace {

constexpr std::uint64_t kStepsPerPace = 1000;
// The bytes for which an account is asked at a time.
constexpr std::size_t kBytesAtOnce = std::size_t{256} << 10;

}  // namespace

void WorkMeter::SetLimits(const WorkLimits& limits) {
  if (HasEnded()) return;  // the earlier limits have ended the work
  limits_ = limits;
  last_step_ = n_steps_ + std::min<std::uint64_t>(limits.steps, kNoLimit - n_steps_);
  last_byte_ = n_bytes_ + std::min(limits.bytes, kNoLimit - n_bytes_);
  SetNextLook();
  next_byte_ = account_ == nullptr ? last_byte_ : std::min(next_byte_, last_byte_);
}

void WorkMeter::SetMemory(std::shared_ptr<ConstraintMemory> memory) {
  account_ = std::make_unique<ConstraintMemory::Account>(std::move(memory));
  next_byte_ = 0;
}

void WorkMeter::SetOwner(std::weak_ptr<FreeableMemory> owner) {
  if (account_ != nullptr) account_->SetOwner(std::move(owner));
}

void WorkMeter::EndWork(std::size_t more_bytes) {
  pace_ = nullptr;
  if (account_ == nullptr) return;
  account_->EndWork(n_bytes_ + more_bytes);
  next_byte_ = std::min(n_bytes_, last_byte_);
}

void WorkMeter::SetNextLook() {
  n_passed_ = 0;
  const std::uint64_t n_left = last_step_ - std::min(n_steps_, last_step_);
  next_look_ = n_left < kStepsPerPace && !HasEnded() ? n_left + 1 : kStepsPerPace;
}

void WorkMeter::Look() {
  if (n_steps_ > last_step_) SetEnd(End::kSteps);
  if (pace_ != nullptr && !HasEnded() && !pace_->GoesOn()) SetEnd(End::kStopped);
  SetNextLook();
}

// Makes room for the bytes, and for some more, so that calls are rare.
void WorkMeter::Reach() {
  next_byte_ = kNoLimit;
  if (HasEnded()) return;
  if (n_bytes_ > last_byte_) {
    SetEnd(End::kBytes);
  } else if (account_ != nullptr && !account_->Reach(n_bytes_ + kBytesAtOnce, pace_)) {
    SetEnd(End::kStopped);
  } else {
    next_byte_ = std::min(n_bytes_ + kBytesAtOnce, last_byte_);
  }
}

}  // namespace fathom::constraint
