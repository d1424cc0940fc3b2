// FairQueue: a queue for a scarce resource, shared equally among the owners of its items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace fathom {

// The next item belongs to the owner with the fewest items that were taken and not returned; among
// several such owners, to the one whose last take or return is longest ago. So an owner gains
// nothing by a large number of waiting items. One thread at a time.
template <class Item>
class FairQueue {
 public:
  // The place of an item among the items of its owner, the lowest first.
  using Ticket = std::uint64_t;
  Ticket NewTicket() { return ++last_ticket_; }

  void Add(const std::string& owner, Ticket ticket, Item item) {
    owners_[owner].waiting.emplace(ticket, std::move(item));
    ++n_waiting_;
  }
  // Removes a waiting item.
  void Remove(const std::string& owner, Ticket ticket) {
    n_waiting_ -= owners_[owner].waiting.erase(ticket);
    Forget(owner);
  }

  std::size_t size() const { return n_waiting_; }
  bool IsEmpty() const { return n_waiting_ == 0; }

  // Takes the next item, if an owner has one that has fewer than `most` taken.
  std::optional<Item> Take(int most = std::numeric_limits<int>::max()) {
    auto next = owners_.end();
    for (auto at = owners_.begin(); at != owners_.end(); ++at) {
      const Owner& owner = at->second;
      if (owner.waiting.empty() || owner.n_taken >= most) continue;
      if (next == owners_.end() || owner.Rank() < next->second.Rank()) next = at;
    }
    if (next == owners_.end()) return std::nullopt;
    Owner& owner = next->second;
    Item item = std::move(owner.waiting.begin()->second);
    owner.waiting.erase(owner.waiting.begin());
    --n_waiting_;
    ++owner.n_taken;
    owner.last_turn = ++n_turns_;
    return item;
  }
  // Counts one item more, or one less, as taken by the owner.
  void Borrow(const std::string& owner) { ++owners_[owner].n_taken; }
  void GiveBack(const std::string& owner) {
    Owner& giver = owners_[owner];
    --giver.n_taken;
    giver.last_turn = ++n_turns_;
    Forget(owner);
  }
  // Returns true if a waiting owner has fewer items taken than this one.
  bool HasFavoured(const std::string& owner) const {
    const auto found = owners_.find(owner);
    const int n_taken = found == owners_.end() ? 0 : found->second.n_taken;
    return std::any_of(owners_.begin(), owners_.end(), [&](const auto& other) {
      return !other.second.waiting.empty() && other.second.n_taken < n_taken;
    });
  }

 private:
  struct Owner {
    std::pair<int, std::uint64_t> Rank() const { return {n_taken, last_turn}; }

    std::map<Ticket, Item> waiting{};
    int n_taken = 0;
    std::uint64_t last_turn = 0;
  };

  void Forget(const std::string& name) {
    const auto found = owners_.find(name);
    if (found->second.waiting.empty() && found->second.n_taken == 0) owners_.erase(found);
  }

  std::map<std::string, Owner> owners_;  // owners with items that wait or are taken
  std::size_t n_waiting_ = 0;
  std::uint64_t n_turns_ = 0;
  Ticket last_ticket_ = 0;
};

}  // namespace fathom
