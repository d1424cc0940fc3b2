// ByteBudget: limits the bytes that all connections hold together.
#pragma once

#include <atomic>
#include <cstddef>

namespace fathom {

// Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}

  // Returns false and takes nothing if fewer bytes are left.
  bool Take(std::size_t n_bytes) {
    std::size_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (n_bytes > limit_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + n_bytes, std::memory_order_relaxed));
    return true;
  }
  void GiveBack(std::size_t n_bytes) { taken_.fetch_sub(n_bytes, std::memory_order_relaxed); }

  std::size_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> taken_ = 0;
};

}  // namespace fathom
