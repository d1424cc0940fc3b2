// ExpertMemory: memory for the weights of experts that move to this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"

namespace fathom::experts {

// Allocates pieces of large buffers, so that huge pages are full: a buffer with a single expert of
// Flash would waste a tenth of its memory. Free pieces are used first, among them the memory of
// experts that were here from the start and have left. One thread at a time.
class ExpertMemory {
 public:
  // max_bytes: limit of all pieces; 0: none. locked_beside: pieces are locked in memory when they
  // are allocated, in addition to this many bytes of weights; nullopt: not locked. The backend must
  // outlive this object.
  ExpertMemory(Backend& backend, std::int64_t max_bytes,
               std::optional<std::int64_t> locked_beside = std::nullopt)
      : backend_(backend), max_bytes_(max_bytes), locked_beside_(locked_beside) {}

  // Returns memory aligned to 64 bytes, with undefined content. Error: kOutOfMemory, also beyond
  // max_bytes, or if the system refuses to lock the piece.
  Result<std::span<std::byte>> Allocate(std::int64_t bytes);
  // `piece`: from Allocate, or other unused memory with the same alignment that outlives this
  // object.
  void Free(std::span<std::byte> piece) { free_.push_back(piece); }
  // Returns the pages of free pieces to the system until they are allocated again.
  void ReleaseFree() const;

  // Returns the bytes of all pieces that were ever allocated, free pieces included.
  std::int64_t bytes() const { return bytes_; }

 private:
  Result<std::span<std::byte>> AllocateUnlocked(std::size_t size);

  Backend& backend_;
  std::int64_t max_bytes_;
  std::optional<std::int64_t> locked_beside_;
  std::int64_t bytes_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::span<std::byte> rest_;  // unused end of the last buffer
  std::vector<std::span<std::byte>> free_;
};

}  // namespace fathom::experts
