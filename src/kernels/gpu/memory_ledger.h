// MemoryLedger: which addresses are memory of the backend, so that memory of the host is told
// apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include "kernels/memory.h"

namespace fathom {

class MemoryLedger {
 public:
  // The buffer, known until it is freed. The ledger must outlive it.
  std::unique_ptr<Buffer> Add(std::unique_ptr<Buffer> buffer);
  // True if the address lies in a buffer that was added.
  bool Has(const void* address) const;

 private:
  class KnownBuffer;

  std::map<const std::byte*, std::int64_t> ranges_;  // address to bytes
};

}  // namespace fathom
