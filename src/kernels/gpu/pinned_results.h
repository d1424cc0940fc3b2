// PinnedResults: copies results from a device to memory of the caller without making the host wait
// for the device.
//
// A driver that copies to ordinary memory of the host waits in the call until the device has
// reached the copy. The copies here write to pinned memory, and Deliver copies the results to the
// caller's memory once the caller has waited for a later ticket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/driver.h"

namespace fathom::kernels {

// One thread at a time.
class PinnedResults {
 public:
  static constexpr std::int64_t kBytes = std::int64_t{256} << 10;

  // Allocates the pinned memory, once. Error: kOutOfMemory.
  Status Allocate(GpuDriver& driver);
  // Enqueues a copy, which Deliver writes to `to`. `ticket`: the first ticket after the copy. A
  // copy that finds no room waits for the delivery of earlier copies.
  void Download(GpuDriver& driver, std::span<std::byte> to, const void* from, std::uint64_t ticket);
  // Writes the results of the copies before this ticket, for which the caller has waited.
  void Deliver(std::uint64_t ticket);
  // Drops all copies: the device has failed.
  void Drop();

 private:
  struct Copy {
    std::span<std::byte> to;
    const std::byte* pinned = nullptr;
    std::uint64_t ticket = 0;
  };

  std::unique_ptr<Buffer> memory_;
  std::int64_t used_ = 0;
  std::vector<Copy> copies_;  // in the order of their tickets
};

}  // namespace fathom::kernels
