#include <cstddef>
#include <cstdint>

#include "fuzz/checkpoint_inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fathom::fuzz::SafetensorsInput(std::span(data, size));
  return 0;
}
