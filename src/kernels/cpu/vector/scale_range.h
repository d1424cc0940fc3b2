// The range of the scales by which weights are multiplied before they are summed
// (scaled_formats.h), and whose exponents Fp4Powers adds to the exponents of the worth of sums
// (product_integers.h).
#pragma once

#include <stdint.h>

namespace fathom::KERNEL_ISA {
namespace {

constexpr uint8_t kSmallestScale = 127 - 60;  // E8M0: 2^-60
constexpr uint8_t kLargestScale = 127;

}  // namespace
}  // namespace fathom::KERNEL_ISA
