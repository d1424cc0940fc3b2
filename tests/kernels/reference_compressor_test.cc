#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::Batch;
using testing::Owned;
using testing::OwnedKeys;
using testing::Random;
using testing::ToDouble;

// A compressor, the inputs of whole sequences, and a cache for them.
struct Compressor {
  int ratio;
  std::int64_t width;
  std::int64_t length;  // tokens of every sequence
  std::int64_t sequences = 2;
  bool packed = false;
  std::vector<float> frequencies = RopeFrequencies(64, 160000.0f, {});
  std::int64_t inputs = 0;
  Owned<float> values{};  // [sequences * length, inputs]
  Owned<float> scores{};
  Owned<float> ape{};
  Owned<Bf16> norm{};

  void Fill(std::uint32_t seed) {
    Random random(seed);
    inputs = width * (ratio == 4 ? 2 : 1);
    values = random.Floats(sequences * length, inputs);
    scores = random.Floats(sequences * length, inputs, 2.0f);
    ape = random.Floats(ratio, inputs);
    norm = random.Bf16s(1, width);
  }
};

struct Cache {
  OwnedKeys rows;
  Owned<std::uint8_t> packed_rows;
  Owned<float> tail_values;
  Owned<float> tail_scores;
  Owned<float> ends;  // boundary rows of every block: values, then scores
  std::vector<std::int32_t> end_blocks;
  CompressorCache view;

  Cache(const Compressor& c, std::int64_t tail_slots)
      : tail_values(c.sequences * tail_slots, c.inputs, 777.0f),
        tail_scores(c.sequences * tail_slots, c.inputs, 777.0f) {
    const std::int64_t capacity = c.length / c.ratio + 1;
    if (c.packed) {
      packed_rows = {c.sequences * capacity, kPackedIndexBytes};
    } else {
      rows = {c.sequences * capacity, {c.width, 2 * std::ssize(c.frequencies)}};
    }
    view = {.ratio = c.ratio,
            .rows = rows.view(c.sequences),
            .packed_rows = testing::OneBlockEach(packed_rows.view(), c.sequences),
            .tail_values = tail_values.view(),
            .tail_scores = tail_scores.view(),
            .tail_slots = tail_slots};
  }

  void AddEnds(const Compressor& c) {
    const std::int64_t blocks = c.length / kBlockTokens + 1;
    ends = {c.sequences * blocks * c.ratio, 2 * c.width, 777.0f};
    end_blocks.resize(static_cast<std::size_t>(c.sequences * blocks));
    std::iota(end_blocks.rbegin(), end_blocks.rend(), 0);
    const std::int64_t row_bytes = ends.cols * static_cast<std::int64_t>(sizeof(float));
    view.boundary_rows = {.data = reinterpret_cast<std::uint8_t*>(ends.data.data()),
                          .block_stride = c.ratio * row_bytes,
                          .rows_per_block = c.ratio,
                          .row_bytes = row_bytes,
                          .table = end_blocks.data(),
                          .table_width = blocks};
  }
  // The tail of a sequence that continues behind the blocks of another: it has nothing of earlier
  // blocks.
  void PoisonTailBefore(const Compressor& c, std::int64_t first) {
    const std::int64_t block = first / kBlockTokens * kBlockTokens;
    for (std::int64_t s = 0; s < c.sequences; ++s) {
      for (std::int64_t p = std::max<std::int64_t>(0, first - view.tail_slots); p < block; ++p) {
        const std::int64_t row = s * view.tail_slots + p % view.tail_slots;
        std::fill_n(tail_values.view().Row(row), c.inputs, std::nanf(""));
        std::fill_n(tail_scores.view().Row(row), c.inputs, std::nanf(""));
      }
    }
  }
};

// Runs positions [first, first + n) of every sequence as one batch.
void Step(const Compressor& c, std::int64_t first, std::int64_t n, Cache& cache) {
  Batch batch;
  Owned<float> values(c.sequences * n, c.inputs);
  Owned<float> scores(c.sequences * n, c.inputs);
  std::int64_t row = 0;
  for (std::int64_t s = c.sequences - 1; s >= 0; --s) {  // not in the order of their slots
    batch.Add(static_cast<std::int32_t>(s), static_cast<std::int32_t>(first),
              static_cast<std::int32_t>(n));
    for (std::int64_t i = 0; i < n; ++i, ++row) {
      std::copy_n(c.values.view().Row(s * c.length + first + i), c.inputs, values.view().Row(row));
      std::copy_n(c.scores.view().Row(s * c.length + first + i), c.inputs, scores.view().Row(row));
    }
  }
  ReferenceBackend().Compress({.values = values.view(),
                               .scores = scores.view(),
                               .ape = c.ape.data.data(),
                               .norm = c.norm.data,
                               .norm_eps = 1e-6f,
                               .frequencies = c.frequencies},
                              batch.view(), cache.view);
}

// Row w of a sequence in double, before quantisation: docs/spec/model.md 5.7 read literally.
std::vector<double> ExactRow(const Compressor& c, std::int64_t sequence, std::int64_t w) {
  std::vector<double> e;
  for (std::int64_t ch = 0; ch < c.width; ++ch) {
    double numerator = 0.0;
    double denominator = 0.0;
    const auto add = [&](std::int64_t position, std::int64_t channel) {
      const std::int64_t row = sequence * c.length + position;
      const double g = static_cast<double>(c.scores.at(row, channel)) +
                       static_cast<double>(c.ape.at(position % c.ratio, channel));
      numerator += std::exp(g) * static_cast<double>(c.values.at(row, channel));
      denominator += std::exp(g);
    };
    if (c.ratio == 4 && w > 0) {
      for (std::int64_t j = 0; j < 4; ++j) add(4 * (w - 1) + j, ch);
    }
    for (std::int64_t j = 0; j < c.ratio; ++j) {
      add(c.ratio * w + j, c.ratio == 4 ? c.width + ch : ch);
    }
    e.push_back(numerator / denominator);
  }
  double square = 0.0;
  for (const double x : e) square += x * x;
  const double r = 1.0 / std::sqrt(square / static_cast<double>(c.width) + 1e-6);
  for (std::size_t i = 0; i < e.size(); ++i) e[i] *= r * ToDouble(c.norm.data[i]);
  const std::size_t pairs = c.frequencies.size();
  for (std::size_t k = 0; k < pairs; ++k) {
    const float angle = static_cast<float>(c.ratio * w) * c.frequencies[k];
    const double cos = std::cos(static_cast<double>(angle));
    const double sin = std::sin(static_cast<double>(angle));
    double& x = e[e.size() - 2 * pairs + 2 * k];
    double& y = e[e.size() - 2 * pairs + 2 * k + 1];
    const double rotated = x * cos - y * sin;
    y = x * sin + y * cos;
    x = rotated;
  }
  return e;
}

// A bf16 rounding is 2^-8 of the number at most. The pooled number is rounded, the norm sees the
// rounded ones, its result is rounded and, of a rotated pair, the rotation's: 4 * 2^-8, the last
// three relative to the pair. E4M3 adds 2^-4 of the number or half a subnormal step.
void ExpectRows(const Compressor& c, const Cache& cache) {
  const Owned<Bf16> rows = cache.rows.Unpacked();
  for (std::int64_t s = 0; s < c.sequences; ++s) {
    for (std::int64_t w = 0; w < c.length / c.ratio; ++w) {
      const std::vector<double> exact = ExactRow(c, s, w);
      const std::int64_t plain = c.width - 2 * std::ssize(c.frequencies);
      for (std::int64_t i = 0; i < c.width; ++i) {
        const double x = exact[static_cast<std::size_t>(i)];
        const double partner = exact[static_cast<std::size_t>(i ^ 1)];
        const double bound = i < plain ? (0x1p-4 + 4 * 0x1p-8) * std::fabs(x) + 3e-5
                                       : 4.05 * 0x1p-8 * std::hypot(x, partner);
        ASSERT_NEAR(ToDouble(rows.at(s * cache.view.Capacity() + w, i)), x, bound)
            << "sequence " << s << " row " << w << " number " << i;
      }
    }
  }
}

TEST(ReferenceCompressor, RatioFourAgreesWithDoubleArithmetic) {
  Compressor c{.ratio = 4, .width = 128, .length = 23};
  c.Fill(1);
  Cache cache(c, 7);
  Step(c, 0, 23, cache);
  ExpectRows(c, cache);
}

TEST(ReferenceCompressor, Ratio128AgreesWithDoubleArithmetic) {
  Compressor c{.ratio = 128, .width = 128, .length = 300};
  c.Fill(2);
  Cache cache(c, 127);
  Step(c, 0, 300, cache);
  ExpectRows(c, cache);
}

// All dimensions rotated: none quantised, so that every channel is compared closely.
TEST(ReferenceCompressor, EveryChannelWithoutQuantisation) {
  for (const int ratio : {4, 128}) {
    Compressor c{.ratio = ratio, .width = 64, .length = 256};
    c.Fill(3);
    Cache cache(c, 2 * ratio);
    Step(c, 0, 256, cache);
    ExpectRows(c, cache);
  }
}

TEST(ReferenceCompressor, IndexRowsAreRotatedAndPacked) {
  Compressor c{.ratio = 4, .width = 128, .length = 12, .packed = true};
  c.Fill(4);
  Cache cache(c, 8);
  Step(c, 0, 12, cache);
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::int64_t w = 0; w < 3; ++w) {
      const std::vector<double> e = ExactRow(c, s, w);
      const std::uint8_t* packed = cache.packed_rows.view().Row(s * cache.view.Capacity() + w);
      for (unsigned i = 0; i < 128; ++i) {
        double x = 0.0;
        for (unsigned j = 0; j < 128; ++j) {
          x += (std::popcount(i & j) & 1) != 0 ? -e[j] : e[j];
        }
        x /= std::sqrt(128.0);
        const double scale = std::ldexp(1.0, packed[64 + i / 32] - 127);
        const int nibble = packed[i / 2] >> (4 * (i % 2)) & 15;
        const double value = static_cast<double>(E2m1ToFloat(static_cast<std::uint8_t>(nibble)));
        // Half of the distance between codes: 0.25, 0.5 or 1 scale.
        const double half = std::fabs(value) < 2 ? 0.25 : std::fabs(value) < 4 ? 0.5 : 1.0;
        EXPECT_NEAR(value * scale, x, half * scale + 0.03) << s << " " << w << " " << i;
      }
    }
  }
}

class ReferenceCompressorChunks : public ::testing::TestWithParam<int> {};

TEST_P(ReferenceCompressorChunks, GiveTheSameRows) {
  for (const int ratio : {4, 128}) {
    for (const bool packed : {false, true}) {
      if (packed && ratio == 128) continue;
      Compressor c{.ratio = ratio, .width = 128, .length = 391, .packed = packed};
      c.Fill(5);
      Cache whole(c, ratio == 4 ? 8 : 128);
      Step(c, 0, c.length, whole);
      // The smallest tail, one that is not a multiple of the ratio, and a long one: all wrap.
      for (const std::int64_t extra : {0, 3, 130}) {
        Cache cut(c, whole.view.Span() - 1 + extra);
        for (std::int64_t first = 0; first < c.length; first += GetParam()) {
          Step(c, first, std::min<std::int64_t>(GetParam(), c.length - first), cut);
        }
        EXPECT_TRUE(cut.rows.bytes.data == whole.rows.bytes.data);
        EXPECT_EQ(cut.packed_rows.data, whole.packed_rows.data);
      }
    }
  }
}

TEST_P(ReferenceCompressorChunks, GiveTheSameRowsWithTheEndsOfBlocksAlone) {
  for (const bool packed : {false, true}) {
    Compressor c{.ratio = 4, .width = 128, .length = 391, .packed = packed};
    c.Fill(7);
    Cache whole(c, 8);
    Step(c, 0, c.length, whole);
    Cache cut(c, 15);
    cut.AddEnds(c);
    for (std::int64_t first = 0; first < c.length; first += GetParam()) {
      cut.PoisonTailBefore(c, first);
      Step(c, first, std::min<std::int64_t>(GetParam(), c.length - first), cut);
    }
    EXPECT_TRUE(cut.rows.bytes.data == whole.rows.bytes.data);
    EXPECT_EQ(cut.packed_rows.data, whole.packed_rows.data);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReferenceCompressorChunks,
                         ::testing::Values(1, 2, 3, 5, 127, 128, 129));

TEST(ReferenceCompressor, TailHoldsTheLastInputsWithTheirPositionBias) {
  Compressor c{.ratio = 4, .width = 64, .length = 10, .sequences = 1};
  c.Fill(6);
  Cache cache(c, 7);
  Step(c, 0, 10, cache);
  for (std::int64_t position = 3; position < 10; ++position) {
    for (std::int64_t i = 0; i < c.inputs; ++i) {
      EXPECT_EQ(cache.tail_values.at(position % 7, i), c.values.at(position, i));
      EXPECT_EQ(cache.tail_scores.at(position % 7, i),
                c.scores.at(position, i) + c.ape.at(position % 4, i));
    }
  }
}

// Rows of which inputs are stored at the ends of blocks: of the last four positions, the first half
// of the channels; nothing where there is no block.
TEST(ReferenceCompressor, TheEndsOfBlocksAreStored) {
  Compressor c{.ratio = 4, .width = 64, .length = 300};
  c.Fill(8);
  for (const std::int64_t chunk : {300, 100, 1}) {
    Cache cache(c, 8);
    cache.AddEnds(c);
    const std::int64_t blocks = cache.view.boundary_rows.table_width;
    ASSERT_EQ(blocks, 3);
    if (chunk != 1) {  // single steps behind the block read it
      cache.end_blocks[3] = kNoBlock;
    }
    for (std::int64_t first = 0; first < c.length; first += chunk) {
      Step(c, first, chunk, cache);
    }
    std::vector<float> expected(cache.ends.data.size(), 777.0f);
    for (std::int64_t s = 0; s < 2; ++s) {
      for (std::int64_t position = 0; position < 256; ++position) {
        const std::int32_t block =
            cache.end_blocks[static_cast<std::size_t>(s * blocks + position / 128)];
        if (position % 128 < 124 || block == kNoBlock) continue;
        for (std::int64_t i = 0; i < c.width; ++i) {
          const std::int64_t row = s * c.length + position;
          const auto at = static_cast<std::size_t>((block * 4 + position % 4) * 2 * c.width + i);
          expected[at] = c.values.at(row, i);
          expected[at + static_cast<std::size_t>(c.width)] =
              c.scores.at(row, i) + c.ape.at(position % 4, i);
        }
      }
    }
    EXPECT_EQ(cache.ends.data, expected) << "chunks of " << chunk;
  }
}

// Positions on both sides of a border, computed again with other inputs.
TEST(ReferenceCompressor, ARollbackAcrossABlockBorder) {
  for (std::int64_t stands = 126; stands <= 136; ++stands) {
    Compressor c{.ratio = 4, .width = 128, .length = 160};
    c.Fill(9);
    Compressor rejected = c;
    rejected.Fill(10);
    rejected.ape = c.ape;
    rejected.norm = c.norm;
    Cache whole(c, 8);
    Step(c, 0, c.length, whole);
    Cache cache(c, 15);
    cache.AddEnds(c);
    Step(c, 0, stands - 8, cache);
    Step(rejected, stands - 8, 8, cache);
    Step(c, stands - 8, 3, cache);
    Step(rejected, stands - 5, 5, cache);
    Step(c, stands - 5, c.length - stands + 5, cache);
    EXPECT_TRUE(cache.rows.bytes.data == whole.rows.bytes.data) << stands;
  }
}

}  // namespace
}  // namespace fathom::kernels
