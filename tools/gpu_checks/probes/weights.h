// Weights: memory of the device that probes read part by part, and that no cache holds.
#pragma once

#include <cstdint>

#include "tools/gpu_checks/probes/probe.h"

namespace fathom::probe {

// The memory is the device's, and stays until its FreeMemory.
class Weights {
 public:
  explicit Weights(const ProbeRun& run);

  std::int64_t bytes() const { return bytes_; }  // several times what the cache holds
  // Returns the i-th part of `bytes` bytes.
  const Vector16* Part(int i, std::int64_t bytes) const;
  // Reads as much other memory, which takes the place of the weights in the cache. Written memory
  // would have to be brought back first.
  void ForgetInCache();
  // Returns the sum of the words of a part, modulo 2^32.
  static std::uint32_t SumOfWords(std::int64_t bytes);

 private:
  static constexpr unsigned char kByte = 0x35;

  ProbeDevice& device_;
  const std::int64_t bytes_;
  const int blocks_;
  Vector16* const memory_;
  Vector16* const other_;
  std::uint32_t* const sums_;
  BlockTimes* const times_;
};

}  // namespace fathom::probe
