#include "kernels/vendor/staging_ring.h"

#include <algorithm>
#include <cstring>

namespace fathom::kernels {

StagingRing::~StagingRing() {
  for (void* const event : ended_) {
    if (event != nullptr) api_.free_event(event);
  }
  if (memory_ != nullptr) api_.free_host(memory_);
}

int StagingRing::Allocate(unsigned host_flags) {
  void* memory = nullptr;
  int error = api_.allocate_host(&memory, kSegments * kSegmentBytes, host_flags);
  memory_ = static_cast<std::byte*>(memory);
  for (void*& event : ended_) {
    if (error == 0) error = api_.make_event(&event, DriverApi::kWithoutTime);
  }
  return error;
}

int StagingRing::Upload(std::byte* to, std::span<const std::byte> from, void* stream) {
  while (!from.empty()) {
    if (used_ == kSegmentBytes) {
      if (const int error = NextSegment(stream); error != 0) return error;
    }
    const std::size_t n = std::min(from.size(), kSegmentBytes - used_);
    std::byte* const staged = memory_ + segment_ * kSegmentBytes + used_;
    std::memcpy(staged, from.data(), n);
    if (const int error = api_.upload(to, staged, n, stream); error != 0) return error;
    used_ += n;
    to += n;
    from = from.subspan(n);
  }
  return 0;
}

// Waiting for an event that was never recorded returns immediately.
int StagingRing::NextSegment(void* stream) {
  if (const int error = api_.record_event(ended_[segment_], stream); error != 0) return error;
  segment_ = (segment_ + 1) % kSegments;
  used_ = 0;
  return api_.wait_for_event(ended_[segment_]);
}

}  // namespace fathom::kernels
