// ExpertMemory: where the weights of experts lie that have moved to this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"

namespace fathom {

// Pieces of large buffers, so that huge pages are full: an expert of Flash alone would waste a
// tenth of its own. What has been given back is taken again first, be it memory that an expert has
// left which was here from the beginning. One thread at a time.
class ExpertMemory {
 public:
  // max_bytes: of all pieces; 0: no limit. locked_beside: pieces are locked in memory when they are
  // taken, beside so many bytes of weights; nullopt: they are not. The backend outlives this
  // object.
  ExpertMemory(Backend& backend, std::int64_t max_bytes,
               std::optional<std::int64_t> locked_beside = std::nullopt)
      : backend_(backend), max_bytes_(max_bytes), locked_beside_(locked_beside) {}

  // Aligned to 64 bytes; what it holds is unknown. Error: kOutOfMemory, also beyond max_bytes, or
  // if the system refuses to lock it.
  Result<std::span<std::byte>> Take(std::int64_t bytes);
  // A piece, or other memory that nobody else uses, aligned alike and there as long as this object.
  void GiveBack(std::span<std::byte> piece) { spare_.push_back(piece); }
  // Gives the pages of what is not in use back to the system until it is taken again; nor are they
  // locked until then.
  void ReleaseSpare() const;

  // Of all pieces that have been taken, those given back included.
  std::int64_t bytes() const { return bytes_; }

 private:
  Result<std::span<std::byte>> TakeUnlocked(std::size_t size);

  Backend& backend_;
  std::int64_t max_bytes_;
  std::optional<std::int64_t> locked_beside_;
  std::int64_t bytes_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::span<std::byte> rest_;  // of the last one
  std::vector<std::span<std::byte>> spare_;
};

}  // namespace fathom
