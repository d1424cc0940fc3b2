// Searches and changes of lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace fathom::constraint {

template <class Item>
bool Contains(const std::vector<Item>& list, const Item& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Appends the item unless the list has it.
template <class Item>
void AddNew(std::vector<Item>& list, const Item& item) {
  if (!Contains(list, item)) list.push_back(item);
}

template <class Item>
void AddAll(std::vector<Item>& list, const std::vector<Item>& items) {
  list.insert(list.end(), items.begin(), items.end());
}

template <class Item>
void SortUnique(std::vector<Item>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

template <class Member>
std::size_t CountRequired(const std::vector<Member>& members) {
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [](const Member& m) { return m.required; }));
}

}  // namespace fathom::constraint
