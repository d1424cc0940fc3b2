// MemoryLedger: records the addresses of the backend's memory, to distinguish it from host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/memory.h"

namespace fathom::kernels {

class MemoryLedger {
 public:
  // Records the buffer until it is freed. The ledger must outlive the buffer.
  std::unique_ptr<Buffer> Add(std::unique_ptr<Buffer> buffer);
  // Returns true if the address is in a recorded buffer.
  bool Has(const void* address) const;

 private:
  class KnownBuffer;

  std::map<const std::byte*, std::int64_t> ranges_;  // address to bytes
};

}  // namespace fathom::kernels
