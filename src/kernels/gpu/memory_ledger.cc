#include "kernels/gpu/memory_ledger.h"

#include <utility>

namespace fathom::kernels {

class MemoryLedger::KnownBuffer : public Buffer {
 public:
  KnownBuffer(MemoryLedger& ledger, std::unique_ptr<Buffer> buffer)
      : Buffer(buffer->address(), buffer->bytes(), /*on_host=*/!buffer->host().empty()),
        ledger_(ledger),
        buffer_(std::move(buffer)) {
    ledger_.ranges_[address()] = bytes();
  }
  ~KnownBuffer() override { ledger_.ranges_.erase(address()); }

 private:
  MemoryLedger& ledger_;
  std::unique_ptr<Buffer> buffer_;
};

std::unique_ptr<Buffer> MemoryLedger::Add(std::unique_ptr<Buffer> buffer) {
  return std::make_unique<KnownBuffer>(*this, std::move(buffer));
}

bool MemoryLedger::Has(const void* address) const {
  const auto next = ranges_.upper_bound(static_cast<const std::byte*>(address));
  if (next == ranges_.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return static_cast<const std::byte*>(address) - begin < bytes;
}

}  // namespace fathom::kernels
