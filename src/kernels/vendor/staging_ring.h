// StagingRing: copies uploads through pinned memory, so that the caller's bytes are read before the
// device takes them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/vendor/driver_api.h"

namespace fathom::kernels {

// The memory is divided into segments that fill one after the other. A segment is written again
// when the copies from it have ended. One thread at a time, with the device set.
class StagingRing {
 public:
  // `api` must outlive the ring.
  explicit StagingRing(const DriverApi& api) : api_(api) {}
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;
  ~StagingRing();

  // Called once, before Upload. Returns 0 or an error of the driver.
  int Allocate(unsigned host_flags);
  // Enqueues a copy of `from` to `to`. `from` is read before the call returns. Returns 0 or an
  // error of the driver.
  int Upload(std::byte* to, std::span<const std::byte> from, void* stream);

 private:
  static constexpr std::size_t kSegments = 8;
  static constexpr std::size_t kSegmentBytes = std::size_t{1} << 20;

  // Ends the segment with an event, and waits until the next one is free.
  int NextSegment(void* stream);

  const DriverApi& api_;
  std::byte* memory_ = nullptr;
  std::array<void*, kSegments> ended_{};  // events: the copies of a segment ended
  std::size_t segment_ = 0;
  std::size_t used_ = 0;  // used bytes of the segment
};

}  // namespace fathom::kernels
