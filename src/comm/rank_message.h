// RankMessage: whole numbers that the first rank tells all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"

namespace fathom {

// Written by the first rank number by number, read by the others in the same order. Keeps its
// memory. One thread at a time.
class RankMessage {
 public:
  void Clear();
  void Add(std::int64_t number) { numbers_.push_back(number); }
  // The number of what follows, then each.
  void AddList(const std::vector<std::int64_t>& list);

  // 0 where there is none.
  std::int64_t Take();
  // Of a list that Take has told the length of: no more than there can be.
  std::size_t TakeLength();
  // Everything has been taken, and nothing that was not there.
  bool IsRead() const { return next_ == numbers_.size(); }

  // Called by all ranks: afterwards the others have the numbers of rank 0, to be read from the
  // first.
  Status Broadcast(Communicator& ranks);

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t next_ = 0;
  std::vector<std::int64_t> wire_;
};

}  // namespace fathom
