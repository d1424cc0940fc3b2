// StepBatch: the batch of a step in memory of the device, brought by one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/gpu/driver.h"
#include "kernels/layer_cache.h"

namespace fathom {

class StepBatch {
 public:
  // Returns the memory that Reserve allocates.
  static std::int64_t BytesFor(std::int64_t max_tokens);
  // Makes room for batches of so many tokens. Error: kOutOfMemory.
  Status Reserve(GpuDriver& driver, std::int64_t max_tokens);
  // Uploads a batch. The batch stays as it is until the next call.
  void Begin(GpuDriver& driver, const BatchView& batch);
  // The batch that Begin was given, or some of its rows. Aborts for any other.
  gpu::DeviceBatch View(const BatchView& batch) const;

 private:
  std::int64_t max_tokens_ = 0;
  std::unique_ptr<Buffer> memory_;
  std::vector<std::byte> header_;  // as it is copied to memory_
  gpu::DeviceBatch whole_;         // in memory_
  BatchView host_;
};

}  // namespace fathom
