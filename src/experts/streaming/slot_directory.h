// SlotDirectory: the expert in each slot of the pool, and the choice of the expert to evict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experts/streaming/policy_race.h"
#include "experts/streaming/use_orders.h"

namespace fathom::experts {

// Experts have keys 0 to n_keys - 1; smaller keys are earlier layers. A slot is free, is being
// filled, or is ready; a leased slot keeps its expert. All operations take constant time, and
// nothing is allocated after the constructor. One thread at a time.
class SlotDirectory {
 public:
  static constexpr std::uint32_t kNone = KeyLists::kNone;

  SlotDirectory(std::size_t n_keys, std::size_t n_slots);

  // Returns the number of slots that are not retired.
  std::size_t n_slots() const { return slots_.size() - retired_.size(); }
  // Returns the slot of an expert. kNone: the expert has no slot.
  std::uint32_t FindSlot(std::uint32_t key) const { return slot_of_[key]; }
  std::uint32_t KeyAt(std::uint32_t slot) const { return slots_[slot].key; }
  bool IsReady(std::uint32_t slot) const { return slots_[slot].state == State::kReady; }
  // Returns the number of slots that Assign can use.
  std::size_t n_available() const { return free_.size() + n_evictable_; }
  std::size_t n_ready() const { return n_ready_; }

  // Assigns a free slot, or the slot of an expert that is not leased, to an expert without a slot;
  // the slot is then being filled. kNone: there is no such slot.
  std::uint32_t Assign(std::uint32_t key);
  // Retires a free slot, or the slot of an expert that is not leased. kNone: there is no such slot.
  std::uint32_t Retire();
  // Reuses a retired slot, if there is one.
  void Restore();
  // Reserves up to n slots for guesses, so that they evict nothing: reserves free slots and slots
  // of experts that are not leased, or returns reserved slots to the pool. Guesses that have slots
  // keep them.
  void SetReserve(std::size_t n);
  // Assigns a slot of the reserve to an expert without a slot, with a lease; the slot is then being
  // filled. kNone: the reserve is empty.
  std::uint32_t AssignReserved(std::uint32_t key);
  // Turns a guessed expert that a block needs into an ordinary expert, with the lease that it has.
  // The reserve takes another slot in its place, as a demand read would have.
  void Adopt(std::uint32_t slot);
  // Returns the slot of a guessed expert that nobody needs, whose only lease is that of
  // AssignReserved, to the reserve.
  void DropGuess(std::uint32_t slot);
  bool IsGuess(std::uint32_t slot) const { return slots_[slot].is_guess; }
  std::size_t n_reserved() const { return reserve_.size(); }

  // Call when a slot has been filled.
  void MarkReady(std::uint32_t slot);
  // Call when filling a slot has failed and nobody leases it.
  void MarkFree(std::uint32_t slot);
  void Lease(std::uint32_t slot);
  // Ends one lease. `is_scan`: the expert was read for a prompt, which uses nearly all experts
  // once. Then it is among the next to be evicted, unless it has been used more often than the
  // least recently used of the others.
  void Release(std::uint32_t slot, bool is_scan = false);

  // As PolicyRace::Use and EndStep.
  void Use(std::uint32_t key, std::int64_t uses, bool is_scan);
  void EndStep(std::int64_t n_tokens);
  const PolicyRace& race() const { return race_; }

 private:
  enum class State : std::uint8_t { kFree, kFilling, kReady };
  struct Slot {
    std::uint32_t key = kNone;
    std::uint32_t n_leases = 0;
    State state = State::kFree;
    bool is_guess = false;
  };
  bool IsEvictable(std::uint32_t slot) const {
    return slots_[slot].state == State::kReady && slots_[slot].n_leases == 0;
  }
  std::uint32_t Victim() const {
    return race_.best() == EvictionPolicy::kLeastRecent ? recent_.First() : frequent_.First();
  }
  std::uint32_t TakeSlot();
  void FillReserve();
  void InsertEvictable(std::uint32_t key, bool is_cold);
  void RemoveEvictable(std::uint32_t key);

  std::vector<std::uint32_t> slot_of_;  // by key
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_, retired_;
  std::vector<std::uint32_t> reserve_;  // slots without an expert
  std::size_t reserve_size_ = 0;        // slots that reserve_ and guesses have, if there is room
  std::size_t n_guesses_ = 0;           // slots of guesses
  // Experts that may be evicted.
  RecencyOrder recent_;
  FrequencyOrder frequent_;
  std::size_t n_evictable_ = 0;
  std::size_t n_ready_ = 0;
  PolicyRace race_;
};

}  // namespace fathom::experts
