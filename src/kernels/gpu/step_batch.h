// StepBatch: the batch of a step in memory of the device, uploaded by one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/gpu/driver.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels {

class StepBatch {
 public:
  // Returns the memory that Reserve allocates.
  static std::int64_t BytesFor(std::int64_t max_tokens);
  // Makes room for batches of max_tokens tokens. Error: kOutOfMemory.
  Status Reserve(GpuDriver& driver, std::int64_t max_tokens);
  // Uploads a batch, which must not change until the next call.
  void Begin(GpuDriver& driver, const BatchView& batch);
  // Returns the device's view of the batch passed to Begin, or of some of its rows. Aborts for
  // others.
  gpu::DeviceBatch View(const BatchView& batch) const;

 private:
  std::int64_t max_tokens_ = 0;
  std::unique_ptr<Buffer> memory_;
  std::vector<std::byte> header_;  // copied to memory_
  gpu::DeviceBatch whole_;         // in memory_
  BatchView host_;
};

}  // namespace fathom::kernels
