#include "experts/streaming/slot_directory.h"

#include <utility>

#include "base/check.h"

namespace fathom::experts {

SlotDirectory::SlotDirectory(std::size_t n_keys, std::size_t n_slots)
    : slot_of_(n_keys, kNone),
      slots_(n_slots),
      recent_(n_keys),
      frequent_(n_keys),
      race_(n_keys, n_slots) {
  free_.reserve(n_slots);
  retired_.reserve(n_slots);
  reserve_.reserve(n_slots);
  for (std::size_t slot = n_slots; slot-- > 0;) {
    free_.push_back(static_cast<std::uint32_t>(slot));
  }
}

void SlotDirectory::InsertEvictable(std::uint32_t key, bool is_cold) {
  recent_.Insert(key, is_cold);
  frequent_.Insert(key, race_.counts()[key], is_cold);
  ++n_evictable_;
}

void SlotDirectory::RemoveEvictable(std::uint32_t key) {
  recent_.Remove(key);
  frequent_.Remove(key);
  --n_evictable_;
}

// Returns a free slot, or the slot of a victim; kNone: there is none.
std::uint32_t SlotDirectory::TakeSlot() {
  if (!free_.empty()) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  const std::uint32_t victim = Victim();
  if (victim == kNone) return kNone;
  RemoveEvictable(victim);
  --n_ready_;
  return std::exchange(slot_of_[victim], kNone);
}

std::uint32_t SlotDirectory::Retire() {
  const std::uint32_t slot = TakeSlot();
  if (slot != kNone) {
    slots_[slot] = {};
    retired_.push_back(slot);
  }
  return slot;
}

void SlotDirectory::Restore() {
  if (retired_.empty()) return;
  free_.push_back(retired_.back());
  retired_.pop_back();
}

std::uint32_t SlotDirectory::Assign(std::uint32_t key) {
  Check(slot_of_[key] == kNone, "an expert without a slot");
  const std::uint32_t slot = TakeSlot();
  if (slot == kNone) return kNone;
  slot_of_[key] = slot;
  slots_[slot] = {.key = key, .state = State::kFilling};
  return slot;
}

void SlotDirectory::FillReserve() {
  while (reserve_.size() + n_guesses_ < reserve_size_) {
    const std::uint32_t slot = TakeSlot();
    if (slot == kNone) return;
    slots_[slot] = {};
    reserve_.push_back(slot);
  }
}

void SlotDirectory::SetReserve(std::size_t n) {
  reserve_size_ = n;
  while (!reserve_.empty() && reserve_.size() + n_guesses_ > n) {
    free_.push_back(reserve_.back());
    reserve_.pop_back();
  }
  FillReserve();
}

std::uint32_t SlotDirectory::AssignReserved(std::uint32_t key) {
  Check(slot_of_[key] == kNone, "an expert without a slot");
  if (reserve_.empty()) return kNone;
  const std::uint32_t slot = reserve_.back();
  reserve_.pop_back();
  slot_of_[key] = slot;
  slots_[slot] = {.key = key, .n_leases = 1, .state = State::kFilling, .is_guess = true};
  ++n_guesses_;
  return slot;
}

void SlotDirectory::Adopt(std::uint32_t slot) {
  Check(slots_[slot].is_guess, "a guessed expert");
  slots_[slot].is_guess = false;
  --n_guesses_;
  FillReserve();
}

void SlotDirectory::DropGuess(std::uint32_t slot) {
  Check(slots_[slot].is_guess && slots_[slot].n_leases == 1, "a guessed expert with one lease");
  n_ready_ -= slots_[slot].state == State::kReady ? 1 : 0;
  slot_of_[slots_[slot].key] = kNone;
  slots_[slot] = {};
  --n_guesses_;
  (reserve_.size() + n_guesses_ < reserve_size_ ? reserve_ : free_).push_back(slot);
}

void SlotDirectory::MarkReady(std::uint32_t slot) {
  Check(slots_[slot].state == State::kFilling, "a slot that is being filled");
  slots_[slot].state = State::kReady;
  ++n_ready_;
  if (IsEvictable(slot)) InsertEvictable(slots_[slot].key, /*is_cold=*/false);
}

void SlotDirectory::MarkFree(std::uint32_t slot) {
  Check(slots_[slot].state == State::kFilling && slots_[slot].n_leases == 0,
        "a slot that is being filled, without a lease");
  slot_of_[slots_[slot].key] = kNone;
  slots_[slot] = {};
  free_.push_back(slot);
}

void SlotDirectory::Lease(std::uint32_t slot) {
  Check(slots_[slot].state != State::kFree, "a lease of an expert");
  if (IsEvictable(slot)) RemoveEvictable(slots_[slot].key);
  ++slots_[slot].n_leases;
}

void SlotDirectory::Release(std::uint32_t slot, bool is_scan) {
  Check(slots_[slot].n_leases > 0, "a slot with a lease");
  --slots_[slot].n_leases;
  if (!IsEvictable(slot)) return;
  const std::uint32_t key = slots_[slot].key;
  const std::uint32_t other = recent_.FirstWarm();
  InsertEvictable(key, is_scan && (other == kNone || race_.counts()[key] <= race_.counts()[other]));
}

void SlotDirectory::Use(std::uint32_t key, std::int64_t uses, bool is_scan) {
  const std::uint32_t slot = slot_of_[key];
  const bool moves = slot != kNone && IsEvictable(slot);
  if (moves) frequent_.Remove(key);
  race_.Use(key, uses, is_scan);
  if (moves) frequent_.Insert(key, race_.counts()[key]);
}

void SlotDirectory::EndStep(std::int64_t n_tokens) {
  if (race_.EndStep(n_tokens)) frequent_.Halve();
}

}  // namespace fathom::experts
