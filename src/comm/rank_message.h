// RankMessage: whole numbers that the first rank sends to all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"

namespace fathom::comm {

// The first rank writes number by number; the others read in the same order. Keeps its memory when
// it is reused. One thread at a time.
class RankMessage {
 public:
  void Clear();
  // Appends the numbers in this order; enums count as numbers.
  template <class... Numbers>
  void Write(Numbers... numbers) {
    (numbers_.push_back(static_cast<std::int64_t>(numbers)), ...);
  }
  // Appends the length of the list, then its numbers.
  template <class List>
  void WriteList(const List& list) {
    Write(std::size(list));
    numbers_.insert(numbers_.end(), std::begin(list), std::end(list));
  }

  // Returns the next number; 0 if none is left.
  std::int64_t Read();
  // Reads the next numbers in this order.
  template <class... Numbers>
  void Read(Numbers&... numbers) {
    ((numbers = static_cast<Numbers>(Read())), ...);
  }
  // Reads the length of a list: at most the count of the numbers that are left.
  std::size_t ReadLength();
  // Reads a list that WriteList wrote; `list` keeps its memory.
  template <class List>
  void ReadList(List& list) {
    list.resize(ReadLength());
    for (typename List::value_type& number : list) Read(number);
  }
  // Returns true if exactly the numbers of the message have been read: none is left, and no read
  // went past the end.
  bool IsRead() const { return next_ == numbers_.size(); }

  // Called by all ranks. Gives the other ranks the numbers of rank 0, to be read from the first.
  Status Broadcast(Communicator& ranks);

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t next_ = 0;
  std::vector<std::int64_t> wire_;
};

}  // namespace fathom::comm
