// Number16: the formats of 16 bits that matrix units multiply.
#pragma once

namespace fathom::kernels {

enum class Number16 { kF16, kBf16 };

}  // namespace fathom::kernels
