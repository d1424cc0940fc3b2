#include "kv_cache/random_fill.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "base/integer_math.h"
#include "kernels/backend.h"

namespace fathom::kv_cache {
namespace {

// SplitMix64: fast, and any seed is good.
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
  void Fill(std::span<std::byte> bytes, std::uint64_t random, std::uint64_t fixed) {
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t word = (Next() & random) | fixed;
      std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
  }

 private:
  std::uint64_t state_;
};

// Makes rows on the host and uploads them.
class RowFiller {
 public:
  RowFiller(Backend& backend, std::uint64_t seed) : backend_(backend), words_(seed) {}

  // Sign, mantissa and the lowest exponent bit are random, so that magnitudes are 1/2 to 2.
  void Numbers(void* to, std::int64_t count) {
    words_.Fill(Row(count * static_cast<std::int64_t>(sizeof(float))), 0x80FFFFFF80FFFFFFu,
                0x3F0000003F000000u);
    backend_.Upload(to, row_);
  }
  void Numbers(const Matrix<float>& m) { Numbers(m.data, m.rows * m.cols); }

  // E4M3 codes whose magnitudes are 1/2 to 2, with scales of 1 for all.
  void Key(void* to, const KeyLayout& layout) {
    const std::int64_t plain = PlainDims(layout);
    const std::span<std::byte> key = Row(KeyBytes(layout));
    words_.Fill(Part(key, 0, plain), 0x8F8F8F8F8F8F8F8Fu, 0x3030303030303030u);
    words_.Fill(Part(key, plain, 2 * layout.rope_dims), 0x80FF80FF80FF80FFu, 0x3F003F003F003F00u);
    std::ranges::fill(Part(key, ScaleOffset(layout), DivideUp(plain, kSimulationGroup)),
                      std::byte{127});
    backend_.Upload(to, key);
  }

  // Any nibble is an E2M1 value; scales of 1/8 to 1.
  void IndexRow(void* to) {
    constexpr std::int64_t kCodes = kIndexDim / 2;
    const std::span<std::byte> row = Row(kPackedIndexBytes);
    words_.Fill(Part(row, 0, kCodes), ~std::uint64_t{0}, 0);
    words_.Fill(Part(row, kCodes, kPackedIndexBytes - kCodes), 0x0303030303030303u,
                0x7C7C7C7C7C7C7C7Cu);
    backend_.Upload(to, row);
  }

 private:
  static std::span<std::byte> Part(std::span<std::byte> row, std::int64_t first,
                                   std::int64_t count) {
    return row.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }
  std::span<std::byte> Row(std::int64_t bytes) {
    row_.assign(static_cast<std::size_t>(bytes), std::byte{0});
    return row_;
  }

  Backend& backend_;
  RandomWords words_;
  std::vector<std::byte> row_;
};

// The rows [0, n_rows) that have a block.
void FillKeys(const KeyRows& keys, std::int32_t sequence, std::int64_t n_rows, RowFiller& fill) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    if (std::uint8_t* key = keys.Row(sequence, row); key != nullptr) {
      fill.Key(key, keys.layout);
    }
  }
}

void FillCompressor(const CompressorCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                    RowFiller& fill) {
  if (cache.ratio == 0) return;
  const std::int64_t n_rows = cache.share.CountBefore(VisibleRows(n_tokens - 1, cache.ratio));
  if (cache.IsPacked()) {
    for (std::int64_t row = 0; row < n_rows; ++row) {
      fill.IndexRow(cache.packed_rows.Row(sequence, row));
    }
  } else {
    FillKeys(cache.rows, sequence, n_rows, fill);
  }
  fill.Numbers(cache.tail_values.Rows(sequence * cache.tail_slots, cache.tail_slots));
  fill.Numbers(cache.tail_scores.Rows(sequence * cache.tail_slots, cache.tail_slots));
  const BlockRows& boundary = cache.boundary_rows;
  const std::int64_t n_boundary =
      boundary.row_bytes > 0 ? n_tokens / kBlockTokens * boundary.rows_per_block : 0;
  for (std::int64_t row = 0; row < n_boundary; ++row) {
    if (std::uint8_t* inputs = boundary.Row(sequence, row); inputs != nullptr) {
      fill.Numbers(inputs, cache.tail_values.cols);
    }
  }
}

}  // namespace

void FillLayerRandomly(SequenceCache& cache, std::int64_t layer, std::int32_t slot,
                       std::int64_t n_tokens, std::uint64_t seed) {
  const LayerCache views = cache.HostLayer(layer);
  RowFiller fill(cache.backend(), seed);
  FillKeys(views.window.rows, slot, n_tokens + views.window.row_of_position_0, fill);
  FillCompressor(views.compressor, slot, n_tokens, fill);
  FillCompressor(views.indexer, slot, n_tokens, fill);
}

void FillRandomly(SequenceCache& cache, std::int32_t sequence, std::int64_t n_tokens,
                  std::uint64_t seed) {
  const CacheShape& shape = cache.shape();
  if (!shape.data.IsOwn(sequence)) return;
  for (std::int64_t layer = 0; layer < cache.n_layers(); ++layer) {
    FillLayerRandomly(cache, layer, shape.data.OwnSlot(sequence), n_tokens,
                      seed + static_cast<std::uint64_t>(shape.first_layer + layer));
  }
}

}  // namespace fathom::kv_cache
