#include "experts/store/expert_memory.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/pages.h"

namespace fathom::experts {
namespace {

constexpr std::int64_t kPieces = 16;  // pieces in a buffer
constexpr std::int64_t kSlotAlignment = 64;

}  // namespace

Result<std::span<std::byte>> ExpertMemory::Allocate(std::int64_t bytes) {
  Result<std::span<std::byte>> piece =
      AllocateUnlocked(static_cast<std::size_t>(RoundUp(bytes, kSlotAlignment)));
  if (piece && locked_beside_) {
    if (Status locked = LockPages(*piece, *locked_beside_ + bytes_, "moved experts"); !locked) {
      Free(*piece);
      return Unexpected(locked.error());
    }
  }
  return piece;
}

Result<std::span<std::byte>> ExpertMemory::AllocateUnlocked(std::size_t size) {
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](std::span<std::byte> piece) { return piece.size() >= size; });
  if (fits != free_.end()) {
    const std::span<std::byte> piece = *fits;
    free_.erase(fits);
    return piece;
  }
  const std::int64_t sum = bytes_ + static_cast<std::int64_t>(size);
  if (max_bytes_ != 0 && sum > max_bytes_) {
    return MakeError(ErrorCode::kOutOfMemory, "moved experts: expected at most {} bytes, found {}",
                     max_bytes_, sum);
  }
  if (rest_.size() < size) {
    Result<std::unique_ptr<Buffer>> buffer =
        backend_.Allocate(kPieces * static_cast<std::int64_t>(size), MemoryKind::kSharedReadOnly);
    if (!buffer) return Unexpected(buffer.error());
    buffers_.push_back(*std::move(buffer));
    rest_ = buffers_.back()->host();
  }
  const std::span<std::byte> piece = rest_.first(size);
  rest_ = rest_.subspan(size);
  bytes_ = sum;
  return piece;
}

void ExpertMemory::ReleaseFree() const {
  for (const std::span<std::byte> piece : free_) {
    ReleasePages(piece);
  }
}

}  // namespace fathom::experts
