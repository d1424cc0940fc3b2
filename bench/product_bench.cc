// Matrix products of every format. Bytes: the weights, read from memory once per call. Operations:
// the products.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "bench/harness.h"

namespace fathom::benchmarks {
namespace {

constexpr std::int64_t kGroups = 8;  // of wo_a
constexpr std::int64_t kGroupRows = 1024;

std::int64_t ScaleCount(const Weight& w) {
  switch (w.format) {
    case WeightFormat::kFp4:
      return w.n * w.ScaleColumns();
    case WeightFormat::kFp8:
      return (w.n + kFp8Block - 1) / kFp8Block * w.ScaleColumns();
    default:
      return 0;
  }
}

double StoredBytes(const Weight& w) {
  const std::int64_t scale_bytes =
      w.format == WeightFormat::kFp8 && w.scale_format == ScaleFormat::kF32 ? 4 : 1;
  return static_cast<double>(w.RowBytes() * w.n + ScaleCount(w) * scale_bytes);
}

double MultiplyAdds(std::int64_t t, const Weight& w) {
  return static_cast<double>(t * w.n) * static_cast<double>(w.k);
}

// Matrices one after the other in more memory than the caches hold.
class WeightPool {
 public:
  explicit WeightPool(WeightFormat format)
      : bytes_(format == WeightFormat::kFp8 ? RandomE4m3(kPoolBytes) : RandomBytes(kPoolBytes)) {}

  Weight Next(Weight w) {
    const std::int64_t bytes = w.RowBytes() * w.n;
    next_ = next_ + bytes > kPoolBytes ? 0 : next_;
    w.data = bytes_.data() + next_;
    next_ += (bytes + 63) / 64 * 64;
    w.scales = w.scale_format == ScaleFormat::kF32
                   ? reinterpret_cast<const std::byte*>(float_scales_.data())
                   : scales_.data();
    return w;
  }

 private:
  const std::vector<std::byte> bytes_;
  const std::vector<std::byte> scales_ = std::vector<std::byte>(1 << 20, std::byte{120});
  const std::vector<float> float_scales_ = std::vector<float>(1 << 16, 0.01f);
  std::int64_t next_ = 0;
};

// x [t, hidden] times [hidden, hidden].
Work Product(benchmark::State& state, Backend& backend, const Weight& weight, std::int64_t t) {
  WeightPool pool(weight.format);
  const std::vector<Bf16> x = RandomNumbers(t * weight.k);
  std::vector<Bf16> out(static_cast<std::size_t>(t * weight.n));
  for (auto _ : state) {
    backend.Linear(Matrix<const Bf16>{x.data(), t, weight.k}, pool.Next(weight),
                   Matrix<Bf16>{out.data(), t, weight.n});
    benchmark::DoNotOptimize(out.data());
  }
  return {StoredBytes(weight), MultiplyAdds(t, weight)};
}

// wo_a: every group of heads with its own rows, activations not quantised.
Work Grouped(benchmark::State& state, Backend& backend, const Weight& weight, std::int64_t t) {
  WeightPool pool(weight.format);
  const std::vector<Bf16> x = RandomNumbers(t * kGroups * weight.k);
  std::vector<Bf16> out(static_cast<std::size_t>(t * weight.n));
  for (auto _ : state) {
    backend.GroupedLinear({x.data(), t, kGroups * weight.k}, pool.Next(weight), kGroups,
                          {out.data(), t, weight.n});
    benchmark::DoNotOptimize(out.data());
  }
  return {StoredBytes(weight), MultiplyAdds(t, weight)};
}

// Six of 256 experts for every token, chosen at random; SwiGLU and its quantisation included.
Work Experts(benchmark::State& state, Backend& backend, WeightFormat format, std::int64_t t) {
  WeightPool pool(format);
  const Weight in = {.format = format, .n = kExpertWidth, .k = kHidden};
  const Weight out = {.format = format, .n = kHidden, .k = kExpertWidth};
  std::vector<ExpertWeights> experts;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    experts.push_back({.w1 = pool.Next(in), .w2 = pool.Next(out), .w3 = pool.Next(in)});
  }
  std::mt19937 random(1);
  std::vector<std::int32_t> ids;
  for (std::int64_t token = 0; token < t; ++token) {
    std::set<std::int32_t> chosen;
    while (std::ssize(chosen) < kExpertsPerToken) {
      chosen.insert(static_cast<std::int32_t>(random() % kExperts));
    }
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  const std::set<std::int32_t> different(ids.begin(), ids.end());
  std::vector<float> factors(ids.size(), 0.25f);
  const std::vector<Bf16> x = RandomNumbers(t * kHidden);
  std::vector<Bf16> rows(ids.size() * kHidden);
  const Routing routing = {{ids.data(), t, kExpertsPerToken},
                           {factors.data(), t, kExpertsPerToken}};
  for (auto _ : state) {
    backend.ExpertRows({x.data(), t, kHidden}, routing, backend.BindExperts(0, experts), 10.0f,
                       {rows.data(), t * kExpertsPerToken, kHidden});
    benchmark::DoNotOptimize(rows.data());
  }
  return {static_cast<double>(different.size()) * (2 * StoredBytes(in) + StoredBytes(out)),
          3 * MultiplyAdds(t * kExpertsPerToken, in)};
}

}  // namespace

void RegisterProducts(const Registrar& registrar) {
  const Weight square = {.n = kHidden, .k = kHidden};
  const auto of = [&](WeightFormat format, ScaleFormat scales = ScaleFormat::kE8m0) {
    Weight w = square;
    w.format = format;
    w.scale_format = scales;
    return w;
  };
  const std::pair<const char*, Weight> products[] = {
      {"fp4", of(WeightFormat::kFp4)},
      {"fp8", of(WeightFormat::kFp8)},
      {"fp8_f32_scales", of(WeightFormat::kFp8, ScaleFormat::kF32)},
      {"bf16", of(WeightFormat::kBf16)},
      {"f32", of(WeightFormat::kF32)}};
  for (const std::int64_t t : kRowCounts) {
    for (const auto& [name, weight] : products) {
      registrar.Add(fmt::format("{}/rows:{}", name, t),
                    [weight = weight, t](benchmark::State& state, Backend& backend) {
                      return Product(state, backend, weight, t);
                    });
    }
    for (const auto& [name, format] :
         {std::pair("fp8", WeightFormat::kFp8), std::pair("bf16", WeightFormat::kBf16)}) {
      const Weight weight = {.format = format, .n = kGroups * kGroupRows, .k = kHidden};
      registrar.Add(fmt::format("grouped_{}/rows:{}", name, t),
                    [weight, t](benchmark::State& state, Backend& backend) {
                      return Grouped(state, backend, weight, t);
                    });
    }
    for (const auto& [name, format] :
         {std::pair("fp4", WeightFormat::kFp4), std::pair("fp8", WeightFormat::kFp8)}) {
      registrar.Add(fmt::format("experts_{}/rows:{}", name, t),
                    [format = format, t](benchmark::State& state, Backend& backend) {
                      return Experts(state, backend, format, t);
                    });
    }
  }
}

}  // namespace fathom::benchmarks
