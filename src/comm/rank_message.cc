#include "comm/rank_message.h"

#include <algorithm>
#include <span>

namespace fathom::comm {
namespace {

// The message of a decoding step fits into one piece of this many numbers, the count included.
constexpr std::size_t kPieceNumbers = 128;

}  // namespace

void RankMessage::Clear() {
  numbers_.clear();
  next_ = 0;
}

std::int64_t RankMessage::Read() {
  const std::size_t at = next_++;
  return at < numbers_.size() ? numbers_[at] : 0;
}

std::size_t RankMessage::ReadLength() {
  const auto length = static_cast<std::size_t>(std::max<std::int64_t>(Read(), 0));
  return std::min(length, numbers_.size() - std::min(next_, numbers_.size()));
}

Status RankMessage::Broadcast(Communicator& ranks) {
  if (ranks.size() == 1) return {};
  wire_.assign(kPieceNumbers, 0);
  const std::size_t n_first = kPieceNumbers - 1;
  if (ranks.rank() == 0) {
    wire_[0] = std::ssize(numbers_);
    std::copy_n(numbers_.begin(), std::min(numbers_.size(), n_first), wire_.begin() + 1);
  }
  if (Status told = ranks.Broadcast(0, std::as_writable_bytes(std::span(wire_))); !told) {
    return told;
  }
  const auto n_numbers = static_cast<std::size_t>(wire_[0]);
  if (ranks.rank() != 0) {
    numbers_.assign(wire_.begin() + 1,
                    wire_.begin() + 1 + static_cast<std::ptrdiff_t>(std::min(n_numbers, n_first)));
    numbers_.resize(n_numbers);
    next_ = 0;
  }
  if (n_numbers <= n_first) return {};
  return ranks.Broadcast(0, std::as_writable_bytes(std::span(numbers_).subspan(n_first)));
}

}  // namespace fathom::comm
