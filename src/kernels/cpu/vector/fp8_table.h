// Converts E4M3 numbers to bf16 numbers, for instructions that look up bytes.
#pragma once

#include <stdint.h>

namespace fathom::kernels::KERNEL_ISA {
namespace {

// The upper and lower bytes of the bf16 numbers of codes 0 ... 127.
struct Fp8Table {
  alignas(64) uint8_t high[128];
  alignas(64) uint8_t low[128];
};

// Multiplies the numbers by 2^exponent.
constexpr Fp8Table MakeFp8Table(int exponent) {
  Fp8Table table = {};
  for (int code = 1; code < 128; ++code) {
    int power = (code >> 3) - 7;
    int mantissa = 8 | (code & 7);
    if (code < 8) {  // value: code * 2^-9
      power = -6;
      for (mantissa = code; mantissa < 8; mantissa *= 2) {
        --power;
      }
    }
    const int bits = (127 + power + exponent) << 7 | (mantissa & 7) << 4;
    table.high[code] = static_cast<uint8_t>(bits >> 8);
    table.low[code] = static_cast<uint8_t>(bits & 255);
  }
  return table;
}

}  // namespace
}  // namespace fathom::kernels::KERNEL_ISA
