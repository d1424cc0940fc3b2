// Speed of the CPU kernels beside the limits of the machine, measured in the same run.
//
//   cmake --preset release -DFATHOM_BENCH=ON && cmake --build --preset release --target
//   kernel_bench build/release/kernel_bench --benchmark_filter='avx2/.*fp4'
//
// Names: instruction set / operation / parameters / threads. "GB" is bytes of weights (or keys)
// read per second, "GFLOP" twice the multiply-adds per second.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "bench/roofline.h"
#include "kernels/backend.h"
#include "kernels/registry.h"

namespace fathom {
namespace {

constexpr std::int64_t kWidth = 4096;           // n and k of the products
constexpr std::int64_t kPoolBytes = 256 << 20;  // beyond every cache

std::unique_ptr<Backend> MakeBackend(Isa isa, int n_threads) {
  Result<std::unique_ptr<Backend>> backend = MakeCpuBackend(isa, n_threads);
  if (!backend || !(*backend)->Reserve({.max_tokens = 512,
                                        .max_linear_inputs = kWidth,
                                        .hidden = kWidth,
                                        .head_dim = 512,
                                        .experts_per_token = 6,
                                        .n_experts = 256,
                                        .moe_intermediate = 2048,
                                        .sliding_window = 128,
                                        .max_compressed_rows = 65536})) {
    return nullptr;
  }
  return std::move(*backend);
}

std::vector<std::byte> RandomBytes(std::int64_t n) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  std::uint64_t state = 88172645463325252u;
  for (std::byte& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    // No E4M3 NaN; as the upper byte of a bf16, moderate exponents.
    byte = static_cast<std::byte>((state & 0x83u) | 0x38u);
  }
  return bytes;
}

std::vector<Bf16> RandomNumbers(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Bf16> numbers(static_cast<std::size_t>(n));
  for (Bf16& x : numbers) {
    x = ToBf16(normal(random));
  }
  return numbers;
}

void SetRates(benchmark::State& state, double bytes, double multiply_adds) {
  const auto rate = [&](double per_iteration) {
    return benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB"] = rate(bytes);
  state.counters["GFLOP"] = rate(2.0 * multiply_adds);
}

void ReadBandwidth(benchmark::State& state, Isa isa, int n_threads) {
  const std::vector<std::byte> pool = RandomBytes(kPoolBytes);
  ThreadTeam team(n_threads);
  for (auto _ : state) {
    team.For(kPoolBytes / 1024, 1024, [&](std::int64_t first, std::int64_t end) {
      const std::byte* data = pool.data() + first * 1024;
      const std::int64_t bytes = (end - first) * 1024;
      benchmark::DoNotOptimize(isa == Isa::kAvx512 ? avx512::ReadBytes(data, bytes)
                                                   : avx2::ReadBytes(data, bytes));
    });
  }
  SetRates(state, static_cast<double>(kPoolBytes), 0);
}

void MultiplyAddPeak(benchmark::State& state, Isa isa, int n_threads) {
  constexpr std::int64_t kUnit = 192 * 1024;
  constexpr std::int64_t kUnits = 64;
  ThreadTeam team(n_threads);
  for (auto _ : state) {
    team.For(kUnits, 1, [&](std::int64_t first, std::int64_t end) {
      const std::int64_t count = (end - first) * kUnit;
      benchmark::DoNotOptimize(isa == Isa::kAvx512 ? avx512::MultiplyAdds(count)
                                                   : avx2::MultiplyAdds(count));
    });
  }
  SetRates(state, 0, static_cast<double>(kUnit * kUnits));
}

// Products with matrices that are read from memory, one after the other.
void Product(benchmark::State& state, Isa isa, int n_threads, WeightFormat format, std::int64_t t) {
  const std::unique_ptr<Backend> backend = MakeBackend(isa, n_threads);
  Weight w = {.format = format, .n = kWidth, .k = kWidth};
  const std::int64_t matrix_bytes = w.RowBytes() * w.n;
  const std::int64_t count = kPoolBytes / matrix_bytes;
  const std::vector<std::byte> pool = RandomBytes(kPoolBytes);
  const std::vector<std::byte> scales(static_cast<std::size_t>(w.n * w.k / kFp4Block),
                                      std::byte{120});
  const std::vector<Bf16> x = RandomNumbers(t * kWidth);
  std::vector<Bf16> out(static_cast<std::size_t>(t * kWidth));
  std::int64_t next = 0;
  for (auto _ : state) {
    w.data = pool.data() + next++ % count * matrix_bytes;
    w.scales = scales.data();
    backend->Linear(Matrix<const Bf16>{x.data(), t, kWidth}, w,
                    Matrix<Bf16>{out.data(), t, kWidth});
    benchmark::DoNotOptimize(out.data());
  }
  SetRates(state, static_cast<double>(matrix_bytes), static_cast<double>(t * w.n * w.k));
}

struct BatchArrays {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segment_of_row;
  std::vector<Segment> segments;
  BatchView View() const { return {tokens, positions, segment_of_row, segments}; }
};

BatchArrays OneSegment(std::int32_t first_position, std::int32_t n_tokens) {
  BatchArrays batch;
  batch.segments.push_back({.n_tokens = n_tokens, .first_position = first_position});
  for (std::int32_t i = 0; i < n_tokens; ++i) {
    batch.tokens.push_back(0);
    batch.positions.push_back(first_position + i);
    batch.segment_of_row.push_back(0);
  }
  return batch;
}

// 64 heads of 512 over a window of 128 and `top` selected rows.
void Attention(benchmark::State& state, Isa isa, int n_threads, std::int64_t t, std::int64_t top) {
  constexpr std::int64_t kHeads = 64;
  constexpr std::int64_t kHeadDim = 512;
  constexpr std::int64_t kPairs = 32;
  constexpr std::int64_t kSlots = 128;
  constexpr std::int64_t kCapacity = 4096;
  const std::unique_ptr<Backend> backend = MakeBackend(isa, n_threads);
  const BatchArrays batch = OneSegment(16000, static_cast<std::int32_t>(t));
  const std::vector<Bf16> q = RandomNumbers(t * kHeads * kHeadDim);
  const std::vector<Bf16> keys = RandomNumbers(t * kHeadDim);
  constexpr KeyLayout kLayout = {kHeadDim, 2 * kPairs};
  std::vector<std::uint8_t> window(kSlots * KeyBytes(kLayout), 0x40);
  std::vector<std::uint8_t> rows(kCapacity * KeyBytes(kLayout), 0x40);
  const std::vector<float> sinks(kHeads);
  const std::vector<float> angles(static_cast<std::size_t>(t * kPairs), 0.5f);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(t * top));
  for (std::size_t i = 0; i < selected.size(); ++i) {
    selected[i] = static_cast<std::int32_t>(i * 7 % 3900);
  }
  std::vector<Bf16> out(q.size());
  LayerCache cache;
  cache.ratio = 4;
  cache.window = {.rows = {{window.data(), kSlots, KeyBytes(kLayout)}, kLayout}, .slots = kSlots};
  cache.compressor.ratio = 4;
  cache.compressor.rows = {{rows.data(), kCapacity, KeyBytes(kLayout)}, kLayout};
  cache.compressor.capacity = kCapacity;
  for (auto _ : state) {
    backend->SparseAttention({.q = {q.data(), t, kHeads * kHeadDim},
                              .keys = {keys.data(), t, kHeadDim},
                              .selected = {selected.data(), t, top},
                              .sinks = sinks,
                              .sliding_window = kSlots,
                              .rope = {{angles.data(), t, kPairs}, {angles.data(), t, kPairs}}},
                             batch.View(), cache, {out.data(), t, kHeads * kHeadDim});
  }
  const auto slots = static_cast<double>(kSlots + top);
  SetRates(state, 0, static_cast<double>(2 * t * kHeads * kHeadDim) * slots);
}

// 64 index heads over the rows of a context of 4 * n_rows tokens, the best 512 of them.
void SelectRows(benchmark::State& state, Isa isa, int n_threads, std::int64_t n_rows) {
  constexpr std::int64_t kHeads = 64;
  constexpr std::int64_t kTop = 512;
  const std::unique_ptr<Backend> backend = MakeBackend(isa, n_threads);
  const BatchArrays batch = OneSegment(static_cast<std::int32_t>(4 * n_rows - 1), 1);
  std::vector<std::uint8_t> cached(static_cast<std::size_t>(n_rows * kPackedIndexBytes));
  std::vector<std::uint8_t> queries(static_cast<std::size_t>(kHeads * kPackedIndexBytes));
  std::mt19937 random(1);
  for (std::vector<std::uint8_t>* bytes : {&cached, &queries}) {
    for (std::size_t i = 0; i < bytes->size(); ++i) {
      (*bytes)[i] = static_cast<std::uint8_t>(i % 68 < 64 ? random() & 255u : 127u);
    }
  }
  const std::vector<Bf16> weights = RandomNumbers(kHeads);
  std::vector<std::int32_t> chosen(kTop);
  CompressorCache cache;
  cache.ratio = 4;
  cache.packed_rows = {cached.data(), n_rows, kPackedIndexBytes};
  cache.capacity = n_rows;
  for (auto _ : state) {
    backend->SelectRows({queries.data(), 1, kHeads * kPackedIndexBytes},
                        {weights.data(), 1, kHeads}, batch.View(), cache, {chosen.data(), 1, kTop});
  }
  SetRates(state, static_cast<double>(cached.size()),
           static_cast<double>(n_rows * kHeads * kIndexDim));
}

void HyperPre(benchmark::State& state, Isa isa, int n_threads, std::int64_t t, std::int64_t d) {
  const std::unique_ptr<Backend> backend = MakeBackend(isa, n_threads);
  const std::vector<Bf16> streams = RandomNumbers(t * 4 * d);
  const std::vector<float> fn(static_cast<std::size_t>(24 * 4 * d), 0.01f);
  const std::vector<float> base(24, 0.1f);
  const std::vector<float> scale(3, 1.0f);
  std::vector<Bf16> out(static_cast<std::size_t>(t * d));
  std::vector<float> post(static_cast<std::size_t>(t * 4));
  std::vector<float> comb(static_cast<std::size_t>(t * 16));
  for (auto _ : state) {
    backend->HcPre({streams.data(), t, 4 * d}, {fn.data(), base.data(), scale.data()}, {},
                   {out.data(), t, d}, {{post.data(), t, 4}, {comb.data(), t, 16}});
  }
  SetRates(state, static_cast<double>(fn.size() * sizeof(float)),
           static_cast<double>(t * 24 * 4 * d));
}

void RegisterProducts(Isa isa, int n_threads, const std::string& suffix) {
  const std::pair<WeightFormat, const char*> formats[] = {{WeightFormat::kFp4, "fp4"},
                                                          {WeightFormat::kFp8, "fp8"},
                                                          {WeightFormat::kBf16, "bf16"},
                                                          {WeightFormat::kF32, "f32"}};
  for (const auto& [format, format_name] : formats) {
    for (const std::int64_t t : {1, 4, 16, 64}) {
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}/rows:{}/{}", Name(isa), format_name, t, suffix).c_str(), Product, isa,
          n_threads, format, t)
          ->UseRealTime();
    }
  }
}

void RegisterAll(Isa isa, int n_threads) {
  const std::string suffix = fmt::format("threads:{}", n_threads);
  const auto add = [&](const std::string& name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", Name(isa), name, suffix).c_str(), function,
                                 isa, n_threads, arguments...)
        ->UseRealTime();
  };
  add("read_bandwidth", ReadBandwidth);
  add("fma_peak", MultiplyAddPeak);
  RegisterProducts(isa, n_threads, suffix);
  for (const std::int64_t t : {1, 64}) {
    add(fmt::format("attention/tokens:{}/selected:512", t), Attention, t, std::int64_t{512});
  }
  for (const std::int64_t rows : {1024, 16384, 65536}) {
    add(fmt::format("select_rows/rows:{}", rows), SelectRows, rows);
  }
  for (const std::int64_t t : {1, 64}) {
    add(fmt::format("hyper_pre/tokens:{}/d:256", t), HyperPre, t, std::int64_t{256});
    add(fmt::format("hyper_pre/tokens:{}/d:4096", t), HyperPre, t, std::int64_t{4096});
  }
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  for (const fathom::Isa isa : fathom::AvailableIsas()) {
    if (isa == fathom::Isa::kScalar) {
      continue;
    }
    for (const int n_threads : {1, 2}) {
      fathom::RegisterAll(isa, n_threads);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
