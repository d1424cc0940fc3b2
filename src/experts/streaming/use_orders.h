// Orders of experts by their use: by the last use, and by the number of uses. All operations take
// constant time: with thousands of experts, a scan for the next victim would cost more than it
// saves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::experts {

// Lists of keys 0 to n_keys - 1; a key is in one list at most.
class KeyLists {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct List {
    std::uint32_t first = kNone, last = kNone;
  };

  explicit KeyLists(std::size_t n_keys) : links_(n_keys) {}
  void Append(List& list, std::uint32_t key);
  void Prepend(List& list, std::uint32_t key);
  void Remove(List& list, std::uint32_t key);
  std::uint32_t Behind(std::uint32_t key) const { return links_[key].behind; }

 private:
  struct Link {
    std::uint32_t before = kNone, behind = kNone;
  };
  std::vector<Link> links_;
};

// Orders keys by their last use, the least recently used key first. Keys that are inserted cold
// come before all others.
class RecencyOrder {
 public:
  explicit RecencyOrder(std::size_t n_keys) : lists_(n_keys), is_cold_(n_keys) {}
  // Inserts a key that is not in the order.
  void Insert(std::uint32_t key, bool is_cold = false) {
    is_cold_[key] = is_cold ? 1 : 0;
    lists_.Append(is_cold ? cold_ : warm_, key);
  }
  void Remove(std::uint32_t key) { lists_.Remove(is_cold_[key] != 0 ? cold_ : warm_, key); }
  // Returns the first key. KeyLists::kNone: the order is empty.
  std::uint32_t First() const { return cold_.first != KeyLists::kNone ? cold_.first : warm_.first; }
  std::uint32_t FirstWarm() const { return warm_.first; }

 private:
  KeyLists lists_;
  KeyLists::List cold_, warm_;
  std::vector<std::uint8_t> is_cold_;
};

// Uses of each expert; all numbers are halved from time to time, so that old uses lose weight.
class UseCounts {
 public:
  static constexpr std::uint16_t kMost = 4095;

  explicit UseCounts(std::size_t n_keys) : counts_(n_keys) {}
  std::uint16_t operator[](std::uint32_t key) const { return counts_[key]; }
  void Add(std::uint32_t key, std::int64_t uses);
  void Halve();
  std::size_t size() const { return counts_.size(); }

 private:
  std::vector<std::uint16_t> counts_;
};

// Orders keys by their number of uses, the least frequently used key first; among keys with the
// same number of uses, the key that was inserted first.
class FrequencyOrder {
 public:
  explicit FrequencyOrder(std::size_t n_keys) : lists_(n_keys), places_(n_keys) {}
  void Insert(std::uint32_t key, std::uint16_t count, bool first = false);
  void Remove(std::uint32_t key);
  std::uint32_t First() const;
  // Call after all counts have been halved. Takes time for each key.
  void Halve();

 private:
  void Mark(std::uint16_t count);
  void Unmark(std::uint16_t count);

  KeyLists lists_;
  std::vector<std::uint16_t> places_;  // the list of each key that is in one
  std::array<KeyLists::List, UseCounts::kMost + 1> by_count_;
  // Bit i: by_count_[i] has keys; bit i of any_: word i has bits.
  std::array<std::uint64_t, 64> words_ = {};
  std::uint64_t any_ = 0;
};

}  // namespace fathom::experts
