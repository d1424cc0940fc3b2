// TensorTile: the content of a TensorMap in the emulator.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tests/hopper/tensor_map.h"

namespace fathom::kernels::emulator {

struct TensorTile {
  const std::byte* data = nullptr;  // [rows, columns], rows row_bytes apart; aligned to 16 bytes
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_bytes = 0;  // a multiple of 16
  std::int64_t element_bytes = 0;
  std::int64_t tile_rows = 0;     // at most 256
  std::int64_t tile_columns = 0;  // a multiple of 16 bytes; at most 128 bytes if swizzled
  // Exchanges the 16-byte pieces of each 128 bytes by bits 7 to 9 of the address.
  std::int64_t swizzled = 0;
  std::byte unused[64] = {};  // pads to the size of a TensorMap
};

inline TensorMap ToTensorMap(const TensorTile& tile) { return std::bit_cast<TensorMap>(tile); }

}  // namespace fathom::kernels::emulator
