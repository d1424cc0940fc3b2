#include "kv_cache/random_fill.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/integer_math.h"

namespace fathom {
namespace {

// SplitMix64: quick, and any seed does.
class RandomWords {
 public:
  explicit RandomWords(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Fills memory with random words of which only the bits `random` are random, the others `fixed`.
  void Fill(void* data, std::int64_t bytes, std::uint64_t random, std::uint64_t fixed) {
    auto* p = static_cast<std::byte*>(data);
    for (std::int64_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = (Next() & random) | fixed;
      std::memcpy(p + i, &word, static_cast<std::size_t>(bytes - i < 8 ? bytes - i : 8));
    }
  }

 private:
  std::uint64_t state_;
};

// Sign, mantissa and the lowest exponent bit are random, so that magnitudes are 1/2 to 2.
void FillBf16(void* numbers, std::int64_t count, RandomWords& words) {
  words.Fill(numbers, count * static_cast<std::int64_t>(sizeof(Bf16)), 0x80FF80FF80FF80FFu,
             0x3F003F003F003F00u);
}

void FillNumbers(const Matrix<float>& m, RandomWords& words) {
  words.Fill(m.data, m.rows * m.cols * static_cast<std::int64_t>(sizeof(float)),
             0x80FFFFFF80FFFFFFu, 0x3F0000003F000000u);
}

// E4M3 codes whose magnitudes are 1/2 to 2, with scales of 1 for all.
void FillKey(std::uint8_t* key, const KeyLayout& layout, RandomWords& words) {
  const std::int64_t plain = PlainDims(layout);
  const std::int64_t n_scales = DivideUp(plain, kSimulationGroup);
  words.Fill(key, plain, 0x8F8F8F8F8F8F8F8Fu, 0x3030303030303030u);
  FillBf16(key + plain, layout.rope_dims, words);
  std::fill_n(key + ScaleOffset(layout), n_scales, std::uint8_t{127});
}

// Those of rows [0, n_rows) that have a block.
void FillKeys(const KeyRows& keys, std::int32_t sequence, std::int64_t n_rows, RandomWords& words) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    std::uint8_t* key = keys.Row(sequence, row);
    if (key != nullptr) {
      FillKey(key, keys.layout, words);
    }
  }
}

// Any nibble is an E2M1 value; scales of 1/8 to 1.
void FillIndexRows(const BlockRows& rows, std::int32_t sequence, std::int64_t n_rows,
                   RandomWords& words) {
  constexpr std::int64_t kCodes = kIndexDim / 2;
  for (std::int64_t i = 0; i < n_rows; ++i) {
    std::uint8_t* row = rows.Row(sequence, i);
    words.Fill(row, kCodes, ~std::uint64_t{0}, 0);
    words.Fill(row + kCodes, kPackedIndexBytes - kCodes, 0x0303030303030303u, 0x7C7C7C7C7C7C7C7Cu);
  }
}

void FillCompressor(CompressorCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                    RandomWords& words) {
  if (cache.ratio == 0) {
    return;
  }
  const std::int64_t n_rows = cache.share.CountBefore(VisibleRows(n_tokens - 1, cache.ratio));
  if (cache.IsPacked()) {
    FillIndexRows(cache.packed_rows, sequence, n_rows, words);
  } else {
    FillKeys(cache.rows, sequence, n_rows, words);
  }
  FillNumbers(cache.tail_values.Rows(sequence * cache.tail_slots, cache.tail_slots), words);
  FillNumbers(cache.tail_scores.Rows(sequence * cache.tail_slots, cache.tail_slots), words);
  const BlockRows& boundary = cache.boundary_rows;
  const std::int64_t n_boundary =
      boundary.row_bytes > 0 ? n_tokens / kBlockTokens * boundary.rows_per_block : 0;
  for (std::int64_t row = 0; row < n_boundary; ++row) {
    if (std::uint8_t* inputs = boundary.Row(sequence, row); inputs != nullptr) {
      FillNumbers({reinterpret_cast<float*>(inputs), 1, cache.tail_values.cols}, words);
    }
  }
}

}  // namespace

void FillRandomly(LayerCache& layer, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed) {
  RandomWords words(seed);
  FillKeys(layer.window.rows, sequence, n_tokens + layer.window.row_of_position_0, words);
  FillCompressor(layer.compressor, sequence, n_tokens, words);
  FillCompressor(layer.indexer, sequence, n_tokens, words);
}

void FillRandomly(SequenceCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed) {
  const CacheShape& shape = cache.shape();
  if (!shape.data.IsOwn(sequence)) {
    return;
  }
  for (std::int64_t layer = 0; layer < cache.n_layers(); ++layer) {
    FillRandomly(cache.Layer(layer), shape.data.OwnSlotOf(sequence), n_tokens,
                 seed + static_cast<std::uint64_t>(shape.first_layer + layer));
  }
}

}  // namespace fathom
