#include "comm/shared_status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace fathom::comm {

Status ShareStatus(Communicator& ranks, const Status& mine) {
  constexpr std::int64_t kNone = -1;
  std::string text = mine ? "" : mine.error().message;
  const Result<std::vector<std::int64_t>> lengths =
      ranks.GatherEach(mine ? kNone : std::int64_t{std::ssize(text)});
  if (!lengths) return mine ? Unexpected(lengths.error()) : mine;
  const auto first = std::ranges::find_if(*lengths, [](std::int64_t n) { return n != kNone; });
  if (first == lengths->end()) return {};
  const auto rank = static_cast<int>(first - lengths->begin());
  if (ranks.rank() != rank) text.assign(static_cast<std::size_t>(*first), '\0');
  const Status told = ranks.Broadcast(rank, std::as_writable_bytes(std::span(text)));
  if (!mine) return mine;
  if (!told) return told;
  return MakeError(ErrorCode::kUnavailable, "rank {}: {}", rank, text);
}

}  // namespace fathom::comm
