// The scales that weights are multiplied by before they are summed (scaled_formats.h), and that
// Fp4Powers adds to the exponents of what sums are worth (product_integers.h).
#pragma once

#include <stdint.h>

namespace fathom::KERNEL_ISA {
namespace {

constexpr uint8_t kSmallestScale = 127 - 60;  // E8M0: 2^-60
constexpr uint8_t kLargestScale = 127;

}  // namespace
}  // namespace fathom::KERNEL_ISA
