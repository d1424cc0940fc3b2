// Operations that read and extend the caches: attention, the indexer, the compressors, at several
// depths. Bytes: the cached rows that one decoded token sees (several queries share them, and their
// own bytes are not counted); for compressors the inputs. Operations: scores and values, or the
// index products, of all queries.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "bench/harness.h"
#include "kv_cache/random_fill.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::benchmarks {
namespace {

// The cache of one layer at a depth, with room for t more tokens.
class FilledCache {
 public:
  FilledCache(Backend& backend, int ratio, std::int64_t depth, std::int64_t t)
      : shape_{.keys = {kHeadDim, 2 * kRopePairs},
               .sliding_window = kWindow,
               .ratios = {ratio},
               .max_context = depth + t} {
    Result<SequenceCache> made = SequenceCache::Create(backend, shape_);
    Check(made.has_value(), "memory for a cache");
    cache_ = std::make_unique<SequenceCache>(*std::move(made));
    Check(cache_->Extend(0, 0, depth + t).has_value(), "blocks for all of it");
    FillRandomly(*cache_, 0, depth + t, 1);  // and the rows that the t tokens complete
  }
  LayerCache& layer() { return cache_->Layer(0); }
  double window_row_bytes() const {
    return static_cast<double>(ComputeLayerBytes({.window_slots = 1}, shape_).constant);
  }
  double row_bytes() const {
    return static_cast<double>(ComputeLayerBytes({.compressed_rows = 1}, shape_).growing);
  }

 private:
  CacheShape shape_;
  std::unique_ptr<SequenceCache> cache_;
};

// The chosen rows of every query: as many as allowed, spread over the rows that it sees.
std::vector<std::int32_t> SpreadRows(std::int64_t depth, std::int64_t t) {
  std::vector<std::int32_t> selected;
  for (std::int64_t i = 0; i < t; ++i) {
    const std::int64_t visible = VisibleRows(depth + i, 4);
    for (std::int64_t j = 0; j < kTopRows; ++j) {
      const std::int64_t row = visible > kTopRows ? j * visible / kTopRows : j;
      selected.push_back(row < visible ? static_cast<std::int32_t>(row) : -1);
    }
  }
  return selected;
}

Work Attention(benchmark::State& state, Backend& backend, int ratio, std::int64_t depth,
               std::int64_t t) {
  FilledCache cache(backend, ratio, depth, t);
  const BatchArrays batch = OneSegment(depth, t);
  const std::vector<Bf16> q = RandomNumbers(t * kHeads * kHeadDim);
  const std::vector<Bf16> keys = RandomNumbers(t * kHeadDim);
  const std::vector<float> sinks(kHeads);
  const Angles angles(t);
  std::vector<std::int32_t> selected = SpreadRows(depth, t);
  std::vector<Bf16> out(q.size());
  AttentionInput input = {.q = {q.data(), t, kHeads * kHeadDim},
                          .keys = {keys.data(), t, kHeadDim},
                          .sinks = sinks,
                          .sliding_window = kWindow,
                          .rope = angles.Rows()};
  if (ratio == 4) {
    input.selected = {selected.data(), t, kTopRows};
  }
  for (auto _ : state) {
    backend.SparseAttention(input, batch.View(), cache.layer(), {out.data(), t, kHeads * kHeadDim});
    benchmark::DoNotOptimize(out.data());
  }
  Work work;
  for (std::int64_t i = 0; i < t; ++i) {
    const std::int64_t visible = VisibleRows(depth + i, ratio);
    const auto rows = static_cast<double>(ratio == 4 ? std::min(visible, kTopRows) : visible);
    const auto window = static_cast<double>(std::min(kWindow, depth + i + 1));
    work.bytes = t == 1 ? window * cache.window_row_bytes() + rows * cache.row_bytes() : 0;
    work.multiply_adds += 2.0 * kHeads * kHeadDim * (window + rows);
  }
  return work;
}

Work SelectRows(benchmark::State& state, Backend& backend, std::int64_t depth, std::int64_t t) {
  FilledCache cache(backend, 4, depth, t);
  const BatchArrays batch = OneSegment(depth, t);
  const Angles angles(t);
  const std::vector<Bf16> q = RandomNumbers(t * kIndexHeads * kIndexDim);
  std::vector<std::uint8_t> queries(static_cast<std::size_t>(t * kIndexHeads * kPackedIndexBytes));
  backend.IndexQueries({q.data(), t, kIndexHeads * kIndexDim}, angles.Rows(),
                       {queries.data(), t, kIndexHeads * kPackedIndexBytes});
  const std::vector<Bf16> weights = RandomNumbers(t * kIndexHeads);
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(t * kTopRows));
  for (auto _ : state) {
    backend.SelectRows({queries.data(), t, kIndexHeads * kPackedIndexBytes},
                       {weights.data(), t, kIndexHeads}, batch.View(), cache.layer().indexer,
                       {chosen.data(), t, kTopRows});
    benchmark::DoNotOptimize(chosen.data());
  }
  Work work;
  for (std::int64_t i = 0; i < t; ++i) {
    const auto visible = static_cast<double>(VisibleRows(depth + i, 4));
    if (visible > kTopRows) {  // else all rows are chosen, without scores
      work.bytes = t == 1 ? visible * kPackedIndexBytes : 0;
      work.multiply_adds += visible * kIndexHeads * kIndexDim;
    }
  }
  return work;
}

Work IndexQueries(benchmark::State& state, Backend& backend, std::int64_t t) {
  const Angles angles(t);
  const std::vector<Bf16> q = RandomNumbers(t * kIndexHeads * kIndexDim);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(t * kIndexHeads * kPackedIndexBytes));
  for (auto _ : state) {
    backend.IndexQueries({q.data(), t, kIndexHeads * kIndexDim}, angles.Rows(),
                         {out.data(), t, kIndexHeads * kPackedIndexBytes});
    benchmark::DoNotOptimize(out.data());
  }
  return {.bytes = static_cast<double>(q.size() * sizeof(Bf16) + out.size())};
}

// Starts at a position where the last of t tokens completes a row. index: the rotated FP4 rows of
// the indexer instead of attention's rows.
Work Compress(benchmark::State& state, Backend& backend, int ratio, bool index, std::int64_t t) {
  const std::int64_t depth = (512 / ratio + 1) * ratio - t % ratio;
  FilledCache filled(backend, ratio, depth, t);
  CompressorCache& cache = index ? filled.layer().indexer : filled.layer().compressor;
  const std::int64_t width = index ? kIndexDim : kHeadDim;
  const std::int64_t inputs = cache.Overlap() * width;
  const BatchArrays batch = OneSegment(depth, t);
  const std::vector<float> values = RandomFloats(t * inputs);
  const std::vector<float> ape(static_cast<std::size_t>(ratio * inputs));
  const std::vector<Bf16> norm = RandomNumbers(width);
  const std::vector<float> frequencies(kRopePairs, 0.1f);
  std::vector<float> scores = RandomFloats(t * inputs);  // ape, which is added in place, is 0
  for (auto _ : state) {
    backend.Compress({.values = {values.data(), t, inputs},
                      .scores = {scores.data(), t, inputs},
                      .ape = ape.data(),
                      .norm = norm,
                      .frequencies = frequencies},
                     batch.View(), cache);
    benchmark::DoNotOptimize(scores.data());
  }
  return {.bytes = 8.0 * static_cast<double>(t * inputs)};
}

}  // namespace

void RegisterCaches(const Registrar& registrar) {
  for (const std::int64_t depth : {0, 128, 4096, 16384, 65536}) {
    for (const std::int64_t t : kRowCounts) {
      for (const int ratio : {0, 4, 128}) {
        if (ratio != 0 || depth == 128) {  // a window alone has no depth
          registrar.Add(fmt::format("attention/ratio:{}/depth:{}/rows:{}", ratio, depth, t),
                        [=](benchmark::State& state, Backend& backend) {
                          return Attention(state, backend, ratio, depth, t);
                        });
        }
      }
      registrar.Add(fmt::format("select_rows/depth:{}/rows:{}", depth, t),
                    [=](benchmark::State& state, Backend& backend) {
                      return SelectRows(state, backend, depth, t);
                    });
    }
  }
  for (const std::int64_t t : kRowCounts) {
    registrar.Add(
        fmt::format("index_queries/rows:{}", t),
        [=](benchmark::State& state, Backend& backend) { return IndexQueries(state, backend, t); });
    for (const auto& [name, ratio, index] :
         {std::tuple("compress_4", 4, false), std::tuple("compress_128", 128, false),
          std::tuple("compress_index", 4, true)}) {
      registrar.Add(fmt::format("{}/rows:{}", name, t),
                    [ratio = ratio, index = index, t](benchmark::State& state, Backend& backend) {
                      return Compress(state, backend, ratio, index, t);
                    });
    }
  }
}

}  // namespace fathom::benchmarks
