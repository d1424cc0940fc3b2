#include "experts/exchange/expert_message.h"

#include <bit>

#include "kernels/reference/quantize.h"

namespace fathom::experts {

DispatchView ViewDispatch(std::byte* message, const DispatchCounts& counts, std::int64_t hidden) {
  DispatchView view;
  view.pairs = {reinterpret_cast<ExpertPair*>(message), static_cast<std::size_t>(counts.n_pairs)};
  view.codes = reinterpret_cast<std::uint8_t*>(view.pairs.data() + counts.n_pairs);
  view.scales = view.codes + counts.n_tokens * hidden;
  return view;
}

void PackToken(std::span<const Bf16> x, std::uint8_t* codes, std::uint8_t* scales) {
  for (std::size_t first = 0; first < x.size(); first += kFp8Block) {
    const float scale = QuantizeE4m3(x.data() + first, kFp8Block, codes + first);
    scales[first / kFp8Block] =
        static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23);
  }
}

void UnpackToken(const std::uint8_t* codes, const std::uint8_t* scales, std::span<Bf16> x) {
  for (std::size_t first = 0; first < x.size(); first += kFp8Block) {
    const float scale = E8m0ToFloat(scales[first / kFp8Block]);
    for (std::size_t i = first; i < first + kFp8Block; ++i) {
      // The product is exact, so it need not be rounded (which would take twice the time).
      const float value = E4m3ToFloat(codes[i]) * scale;
      x[i] = Bf16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16)};
    }
  }
}

}  // namespace fathom::experts
