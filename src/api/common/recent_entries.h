// RecentEntries: a table that keeps the most recently used values within a number of bytes.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

namespace fathom::api {

// A table by key in the order of use; evicts the least recently used entries above the limit. Used
// by one thread at a time. Pointers to values are valid until the next change.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class RecentEntries {
 public:
  explicit RecentEntries(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Replaces the entry with the same key. `bytes`: the size that counts for the entry; a single
  // entry above the limit is not kept.
  void Put(const Key& key, Value value, std::size_t bytes) {
    Remove(key);
    if (bytes > max_bytes_) return;
    while (bytes_ + bytes > max_bytes_) Erase(std::prev(entries_.end()));
    entries_.push_front({.key = key, .value = std::move(value), .bytes = bytes});
    by_key_.emplace(key, entries_.begin());
    bytes_ += bytes;
  }

  // Marks the entry as the most recently used; nullptr if there is none.
  const Value* Use(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &entries_.front().value;
  }

  // Returns whether there was such an entry.
  bool Remove(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return false;
    Erase(found->second);
    return true;
  }

  // Returns the first result of look(value) that is not nullptr, most recently used first. Does not
  // mark entries as used.
  template <typename Look>
  auto Find(const Look& look) const -> decltype(look(std::declval<const Value&>())) {
    for (const Entry& entry : entries_) {
      if (const auto* found = look(entry.value)) return found;
    }
    return nullptr;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Key key;
    Value value;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  void Erase(typename Entries::iterator entry) {
    bytes_ -= entry->bytes;
    by_key_.erase(entry->key);
    entries_.erase(entry);
  }

  const std::size_t max_bytes_;
  Entries entries_;  // most recently used first
  std::unordered_map<Key, typename Entries::iterator, Hash> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace fathom::api
