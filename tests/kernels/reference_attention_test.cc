#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/kernel_data.h"

namespace fathom::kernels {
namespace {

using testing::Batch;
using testing::Owned;
using testing::OwnedKeys;
using testing::Random;
using testing::RopeTable;
using testing::ToDouble;

constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kPairs = 16;
constexpr KeyLayout kLayout = {kHeadDim, 2 * kPairs};

// One attention layer, the queries and keys of whole sequences, and its finished compressed rows.
struct Layer {
  int ratio;
  std::int64_t window;
  std::int64_t length;
  std::int64_t top_k = 0;  // 0: all visible rows
  std::int64_t sequences = 2;
  Owned<Bf16> q{};     // [sequences * length, heads * head_dim]
  Owned<Bf16> keys{};  // [sequences * length, head_dim]
  OwnedKeys packed_rows{};
  Owned<Bf16> rows{};  // the same
  Owned<std::int32_t> selected{};
  std::vector<float> sinks = {0.5f, -2.0f, 3.0f};
  std::vector<float> frequencies = RopeFrequencies(2 * kPairs, 10000.0f, {});
  std::int64_t capacity = 0;

  void Fill(std::uint32_t seed) {
    Random random(seed);
    q = random.Bf16s(sequences * length, kHeads * kHeadDim, 2.0f);
    keys = OwnedKeys(random.Bf16s(sequences * length, kHeadDim), kLayout).Unpacked();
    capacity = ratio == 0 ? 0 : length / ratio + 1;
    packed_rows = {random.Bf16s(sequences * capacity, kHeadDim), kLayout};
    rows = packed_rows.Unpacked();
    selected = {sequences * length, top_k, -1};
    for (std::int64_t row = 0; row < selected.rows; ++row) {
      std::vector<std::int32_t> visible;
      for (std::int32_t c = 0; c < VisibleRows(row % length, ratio); ++c) visible.push_back(c);
      for (std::size_t i = visible.size(); i > 1; --i) {
        std::swap(visible[i - 1],
                  visible[static_cast<std::size_t>(random.Below(static_cast<int>(i)))]);
      }
      for (std::int64_t i = 0; i < std::min(top_k, std::ssize(visible)); ++i) {
        selected.at(row, i) = visible[static_cast<std::size_t>(i)];
      }
    }
  }
};

template <class T>
Owned<T> TakeRows(const Owned<T>& from, const Layer& layer, std::int64_t first, std::int64_t n) {
  Owned<T> out(layer.sequences * n, from.cols);
  for (std::int64_t s = 0; s < layer.sequences; ++s) {
    std::copy_n(from.view().Row(s * layer.length + first), n * from.cols, out.view().Row(s * n));
  }
  return out;
}

// Runs all sequences in chunks of the given sizes (the last one repeated).
Owned<Bf16> Attend(Layer& layer, const std::vector<std::int64_t>& chunks,
                   std::int64_t row_of_position_0 = 0) {
  const std::int64_t window_rows = layer.length + row_of_position_0;
  OwnedKeys window({layer.sequences * window_rows, kHeadDim, ToBf16(100.0f)}, kLayout);
  LayerCache cache;
  cache.ratio = layer.ratio;
  cache.window = {.rows = window.view(layer.sequences), .row_of_position_0 = row_of_position_0};
  cache.compressor.ratio = layer.ratio;
  cache.compressor.rows = layer.packed_rows.view(layer.sequences);
  Owned<Bf16> result(layer.sequences * layer.length, kHeads * kHeadDim);
  ReferenceBackend backend;
  std::size_t chunk = 0;
  for (std::int64_t first = 0; first < layer.length;) {
    const std::int64_t n =
        std::min(chunks[std::min(chunk++, chunks.size() - 1)], layer.length - first);
    Batch batch;
    for (std::int32_t s = 0; s < layer.sequences; ++s) {
      batch.Add(s, static_cast<std::int32_t>(first), static_cast<std::int32_t>(n));
    }
    const auto q = TakeRows(layer.q, layer, first, n);
    const auto keys = TakeRows(layer.keys, layer, first, n);
    const auto selected = TakeRows(layer.selected, layer, first, n);
    const RopeTable rope(batch.view().positions, layer.frequencies);
    Owned<Bf16> out(q.rows, q.cols);
    backend.SparseAttention({.q = q.view(),
                             .keys = keys.view(),
                             .selected = selected.view(),
                             .sinks = layer.sinks,
                             .sliding_window = layer.window,
                             .rope = rope.view()},
                            batch.view(), cache, out.view());
    backend.AppendWindow(keys.view(), batch.view(), cache.window);
    for (std::int64_t s = 0; s < layer.sequences; ++s) {
      std::copy_n(out.view().Row(s * n), n * out.cols, result.view().Row(s * layer.length + first));
    }
    first += n;
  }
  return result;
}

// The attention output of one head of one query, by the formula of docs/spec/model.md 5.5 and 5.6.
std::vector<double> ExactOutput(const Layer& layer, std::int64_t s, std::int64_t p,
                                std::int64_t head) {
  std::vector<const Bf16*> keys;
  for (std::int64_t i = std::max<std::int64_t>(0, p - layer.window + 1); i <= p; ++i) {
    keys.push_back(layer.keys.view().Row(s * layer.length + i));
  }
  const std::int64_t row = s * layer.length + p;
  for (std::int64_t i = 0; i < (layer.top_k == 0 ? VisibleRows(p, layer.ratio) : layer.top_k);
       ++i) {
    const std::int64_t c = layer.top_k == 0 ? i : layer.selected.at(row, i);
    if (c >= 0) keys.push_back(layer.rows.view().Row(s * layer.capacity + c));
  }
  double denominator = std::exp(static_cast<double>(layer.sinks[static_cast<std::size_t>(head)]));
  std::vector<double> o(kHeadDim);
  for (const Bf16* key : keys) {
    double z = 0.0;
    for (std::int64_t i = 0; i < kHeadDim; ++i) {
      z += ToDouble(layer.q.at(row, head * kHeadDim + i)) * ToDouble(key[i]);
    }
    const double p_key = std::exp(z / std::sqrt(static_cast<double>(kHeadDim)));
    denominator += p_key;
    for (std::size_t i = 0; i < o.size(); ++i) o[i] += p_key * ToDouble(key[i]);
  }
  for (double& x : o) x /= denominator;
  for (std::size_t k = 0; k < kPairs; ++k) {
    const double angle = static_cast<double>(static_cast<float>(p) * layer.frequencies[k]);
    double& x = o[kHeadDim - 2 * kPairs + 2 * k];
    double& y = o[kHeadDim - 2 * kPairs + 2 * k + 1];
    const double back = x * std::cos(angle) + y * std::sin(angle);
    y = y * std::cos(angle) - x * std::sin(angle);
    x = back;
  }
  return o;
}

void ExpectExact(const Layer& layer, const Owned<Bf16>& out) {
  for (std::int64_t s = 0; s < layer.sequences; ++s) {
    for (std::int64_t p = 0; p < layer.length; p += 7) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const std::vector<double> exact = ExactOutput(layer, s, p, head);
        for (std::int64_t i = 0; i < kHeadDim; ++i) {
          // Keys are at most 3; probabilities, results and rotated results are bf16: 3 * 2^-8 of
          // that if all roundings went in one direction; half of that is enough.
          ASSERT_NEAR(ToDouble(out.at(s * layer.length + p, head * kHeadDim + i)),
                      exact[static_cast<std::size_t>(i)], 3.0 * 3 * 0x1p-9)
              << "sequence " << s << " position " << p << " head " << head << " number " << i;
        }
      }
    }
  }
}

TEST(ReferenceAttention, WindowOnlyAgreesWithDoubleArithmetic) {
  Layer layer{.ratio = 0, .window = 128, .length = 200};
  layer.Fill(1);
  ExpectExact(layer, Attend(layer, {200}));
}

TEST(ReferenceAttention, AllCompressedRowsAgreeWithDoubleArithmetic) {
  Layer layer{.ratio = 128, .window = 40, .length = 400};
  layer.Fill(2);
  ExpectExact(layer, Attend(layer, {400}));
}

TEST(ReferenceAttention, SelectedRowsAgreeWithDoubleArithmetic) {
  Layer layer{.ratio = 4, .window = 64, .length = 200, .top_k = 30};
  layer.Fill(3);
  ExpectExact(layer, Attend(layer, {200}));
}

struct Case {
  const char* name;
  int ratio;
  std::int64_t window;
  std::int64_t top_k;
};

class ReferenceAttentionChunks : public ::testing::TestWithParam<Case> {};

TEST_P(ReferenceAttentionChunks, GiveTheSameBits) {
  const auto [name, ratio, window, top_k] = GetParam();
  Layer layer{.ratio = ratio, .window = window, .length = 300, .top_k = top_k};
  layer.Fill(4);
  const Owned<Bf16> whole = Attend(layer, {300});
  EXPECT_TRUE(Attend(layer, {1}).data == whole.data) << "token by token";
  EXPECT_TRUE(Attend(layer, {129, 1, 1, 127, 2}).data == whole.data) << "mixed chunks";
  EXPECT_TRUE(Attend(layer, {3, 70}).data == whole.data) << "long chunks";
  EXPECT_TRUE(Attend(layer, {3, 70}, 1).data == whole.data) << "keys one row further";
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReferenceAttentionChunks,
                         ::testing::Values(Case{"window_128", 0, 128, 0},
                                           Case{"window_16", 0, 16, 0},
                                           Case{"selected_rows", 4, 64, 20},
                                           Case{"no_selected_rows", 4, 8, 0},
                                           Case{"all_compressed_rows", 128, 128, 0}),
                         [](const auto& kind) { return kind.param.name; });

TEST(ReferenceAttention, DraftLayersStoreTheKeyOfAPositionOneRowFurther) {
  const Owned<Bf16> keys = Random(5).Bf16s(3, kHeadDim);
  const Owned<Bf16> old = Random(6).Bf16s(8, kHeadDim);
  OwnedKeys window(old, kLayout);
  WindowCache cache = {.rows = window.view(), .row_of_position_0 = 1};
  Batch batch;
  batch.Add(0, 2, 3);
  ReferenceBackend().AppendWindow(keys.view(), batch.view(), cache);
  const Owned<Bf16> stored = window.Unpacked();
  for (std::int64_t row = 0; row < 8; ++row) {
    const bool is_new = row >= 3 && row < 6;
    const Owned<Bf16>& from = is_new ? keys : old;
    const Owned<Bf16> expected = OwnedKeys(from, kLayout).Unpacked();
    for (std::int64_t i = 0; i < kHeadDim; ++i) {
      EXPECT_EQ(stored.at(row, i), expected.at(is_new ? row - 3 : row, i)) << row << " " << i;
    }
  }
}

// Equal keys: every probability is the same, the sink takes its share.
TEST(ReferenceAttention, SinkTakesItsShareByHand) {
  const Owned<Bf16> q(1, kHeadDim, ToBf16(0.0f));
  const Owned<Bf16> keys(1, kHeadDim, ToBf16(2.0f));
  OwnedKeys window({8, kHeadDim, ToBf16(2.0f)}, {kHeadDim, 0});
  LayerCache cache;
  cache.window = {.rows = window.view()};
  const RopeTable none(std::vector<std::int32_t>{6}, {});
  Batch batch;
  batch.Add(0, 6, 1);  // seven keys
  const auto run = [&](float sink) {
    Owned<Bf16> out(1, kHeadDim);
    const std::vector<float> sinks = {sink};
    ReferenceBackend().SparseAttention({.q = q.view(),
                                        .keys = keys.view(),
                                        .selected = {},
                                        .sinks = sinks,
                                        .sliding_window = 8,
                                        .rope = none.view()},
                                       batch.view(), cache, out.view());
    return ToFloat(out.at(0, 0));
  };
  EXPECT_EQ(run(0.0f), 14.0f / 8.0f);
  EXPECT_EQ(run(-200.0f), 2.0f);
  EXPECT_EQ(run(200.0f), 0.0f);
}

// Two keys with z = 0 and z = -b. The second probability is rounded to bf16 as the weight of the
// value, not in the sum.
TEST(ReferenceAttention, ProbabilitiesAreRoundedBesideTheValuesOnly) {
  const RopeTable none(std::vector<std::int32_t>{1}, {});
  const std::vector<float> sinks = {-200.0f};
  Batch batch;
  batch.Add(0, 1, 1);
  Owned<Bf16> q(1, kHeadDim);
  q.at(0, 0) = ToBf16(-8.0f);  // the square root of head_dim
  OwnedKeys window(4, {kHeadDim, 0});
  LayerCache cache;
  cache.window = {.rows = window.view()};
  int rounded = 0;
  for (int i = 1; i < 100; ++i) {
    Owned<Bf16> key(1, kHeadDim);
    key.at(0, 0) = ToBf16(static_cast<float>(i) / 32.0f);
    key.at(0, 1) = ToBf16(1.0f);
    Owned<Bf16> out(1, kHeadDim);
    ReferenceBackend().SparseAttention({.q = q.view(),
                                        .keys = key.view(),
                                        .selected = {},
                                        .sinks = sinks,
                                        .sliding_window = 4,
                                        .rope = none.view()},
                                       batch.view(), cache, out.view());
    const float p = Exp<ScalarOps>(-ToFloat(key.at(0, 0)));
    EXPECT_EQ(out.at(0, 1), ToBf16(RoundToBf16(p) / (1.0f + p)));
    rounded += out.at(0, 1) != ToBf16(p / (1.0f + p));
  }
  EXPECT_GT(rounded, 0);  // the cases tell the two apart
}

}  // namespace
}  // namespace fathom::kernels
