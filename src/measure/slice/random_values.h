// RandomValues: computes the bytes of random tensors, any part in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "measure/slice/tensors.h"

namespace fathom::measure {

// Each value is a function of the seed, the name of its tensor and its index. So a layer is equal
// in every slice made with one seed, and threads need no shared state. Immutable; any thread.
class RandomValues {
 public:
  explicit RandomValues(std::uint64_t seed);

  // Fills `out` with the bytes [first_byte, first_byte + out.size()) of the tensor; first_byte is a
  // multiple of 4. Types: see tensors.h.
  void Fill(const SliceTensor& tensor, std::int64_t first_byte, std::span<std::byte> out) const;

 private:
  static constexpr std::size_t kSixteenBits = std::size_t{1} << 16;

  std::uint64_t seed_;
  // Indexed by 16 random bits: two E2M1 codes in a byte, and an E4M3 code.
  std::array<std::uint8_t, kSixteenBits> e2m1_pairs_;
  std::array<std::uint8_t, kSixteenBits> e4m3_codes_;
};

}  // namespace fathom::measure
