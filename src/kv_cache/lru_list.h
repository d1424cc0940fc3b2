// LruList: small numbers in the order in which they were last used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::kv_cache {

// A doubly linked list of items 0, 1, ... with the links in arrays: every operation takes constant
// time and allocates only when the numbers grow. One thread at a time.
class LruList {
 public:
  static constexpr std::int32_t kNone = -1;

  // Return the least recently used item; the next more recently used item after `item`.
  std::int32_t oldest() const { return head_; }
  std::int32_t After(std::int32_t item) const { return LinkAt(item).next; }
  bool Contains(std::int32_t item) const {
    return static_cast<std::size_t>(item) < links_.size() && LinkAt(item).is_in;
  }

  // Makes `item` the most recently used, whether it was in the list or not.
  void Touch(std::int32_t item) {
    Remove(item);
    if (static_cast<std::size_t>(item) >= links_.size()) {
      links_.resize(static_cast<std::size_t>(item) + 1);
    }
    LinkAt(item) = {.previous = tail_, .next = kNone, .is_in = true};
    (tail_ == kNone ? head_ : LinkAt(tail_).next) = item;
    tail_ = item;
  }

  // Removes `item`; does nothing if it is not in the list.
  void Remove(std::int32_t item) {
    if (!Contains(item)) return;
    const Link link = LinkAt(item);
    (link.previous == kNone ? head_ : LinkAt(link.previous).next) = link.next;
    (link.next == kNone ? tail_ : LinkAt(link.next).previous) = link.previous;
    LinkAt(item).is_in = false;
  }

 private:
  struct Link {
    std::int32_t previous = kNone;
    std::int32_t next = kNone;
    bool is_in = false;
  };
  Link& LinkAt(std::int32_t item) { return links_[static_cast<std::size_t>(item)]; }
  const Link& LinkAt(std::int32_t item) const { return links_[static_cast<std::size_t>(item)]; }

  std::vector<Link> links_;
  std::int32_t head_ = kNone;
  std::int32_t tail_ = kNone;
};

}  // namespace fathom::kv_cache
