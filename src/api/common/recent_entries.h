// RecentEntries: as many values as fit into so many bytes, those used last.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

namespace fathom {

// A table by key in the order of use. Over the limit the entries go that were not used for longest.
// One thread at a time. Pointers to values hold until the next change.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class RecentEntries {
 public:
  explicit RecentEntries(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // In place of what has the same key. `bytes`: what the entry counts for; what alone is over the
  // limit is not kept.
  void Put(const Key& key, Value value, std::size_t bytes) {
    Remove(key);
    if (bytes > max_bytes_) return;
    while (bytes_ + bytes > max_bytes_) Erase(std::prev(entries_.end()));
    entries_.push_front({.key = key, .value = std::move(value), .bytes = bytes});
    by_key_.emplace(key, entries_.begin());
    bytes_ += bytes;
  }

  // Makes it the latest used; nullptr if there is none.
  const Value* Use(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &entries_.front().value;
  }

  // Whether it was there.
  bool Remove(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return false;
    Erase(found->second);
    return true;
  }

  // The first answer of look(value) that is not nullptr, the latest used first; uses nothing.
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
  Entries entries_;  // the latest used first
  std::unordered_map<Key, typename Entries::iterator, Hash> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace fathom
