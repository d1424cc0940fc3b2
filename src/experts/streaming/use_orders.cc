#include "experts/streaming/use_orders.h"

#include <algorithm>
#include <bit>

namespace fathom::experts {

void KeyLists::Append(List& list, std::uint32_t key) {
  links_[key] = {.before = list.last, .behind = kNone};
  (list.last == kNone ? list.first : links_[list.last].behind) = key;
  list.last = key;
}

void KeyLists::Prepend(List& list, std::uint32_t key) {
  links_[key] = {.before = kNone, .behind = list.first};
  (list.first == kNone ? list.last : links_[list.first].before) = key;
  list.first = key;
}

void KeyLists::Remove(List& list, std::uint32_t key) {
  const Link link = links_[key];
  (link.before == kNone ? list.first : links_[link.before].behind) = link.behind;
  (link.behind == kNone ? list.last : links_[link.behind].before) = link.before;
}

void UseCounts::Add(std::uint32_t key, std::int64_t uses) {
  counts_[key] = static_cast<std::uint16_t>(std::min<std::int64_t>(counts_[key] + uses, kMost));
}

void UseCounts::Halve() {
  for (std::uint16_t& count : counts_) count = static_cast<std::uint16_t>(count / 2);
}

void FrequencyOrder::Mark(std::uint16_t count) {
  words_[count / 64] |= std::uint64_t{1} << (count % 64);
  any_ |= std::uint64_t{1} << (count / 64);
}

void FrequencyOrder::Unmark(std::uint16_t count) {
  words_[count / 64] &= ~(std::uint64_t{1} << (count % 64));
  if (words_[count / 64] == 0) any_ &= ~(std::uint64_t{1} << (count / 64));
}

void FrequencyOrder::Insert(std::uint32_t key, std::uint16_t count, bool first) {
  places_[key] = count;
  first ? lists_.Prepend(by_count_[count], key) : lists_.Append(by_count_[count], key);
  Mark(count);
}

void FrequencyOrder::Remove(std::uint32_t key) {
  KeyLists::List& list = by_count_[places_[key]];
  lists_.Remove(list, key);
  if (list.first == KeyLists::kNone) Unmark(places_[key]);
}

std::uint32_t FrequencyOrder::First() const {
  if (any_ == 0) return KeyLists::kNone;
  const auto word = static_cast<std::size_t>(std::countr_zero(any_));
  return by_count_[word * 64 + static_cast<std::size_t>(std::countr_zero(words_[word]))].first;
}

void FrequencyOrder::Halve() {
  for (std::uint16_t count = 1; count <= UseCounts::kMost; ++count) {
    while (by_count_[count].first != KeyLists::kNone) {
      const std::uint32_t key = by_count_[count].first;
      Remove(key);
      Insert(key, static_cast<std::uint16_t>(count / 2));
    }
  }
}

}  // namespace fathom::experts
