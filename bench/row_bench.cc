// Operations on rows of activations. Bytes: all reads and writes, including activations; few rows
// stay in the caches and may be faster than memory.
#include <fmt/format.h>

#include "bench/harness.h"

namespace fathom::benchmarks {
namespace {

constexpr std::int64_t kGates = 24;

double Bf16Bytes(std::int64_t n) { return 2.0 * static_cast<double>(n); }

Work RmsNorm(benchmark::State& state, Backend& backend, std::int64_t t) {
  const std::vector<Bf16> x = RandomNumbers(t * kHidden);
  const std::vector<Bf16> weight = RandomNumbers(kHidden);
  std::vector<Bf16> out(x.size());
  for (auto _ : state) {
    backend.RmsNorm({x.data(), t, kHidden}, weight, 1e-6f, {out.data(), t, kHidden});
    benchmark::DoNotOptimize(out.data());
  }
  return {.bytes = Bf16Bytes(2 * t * kHidden)};
}

Work QueryHeads(benchmark::State& state, Backend& backend, std::int64_t t) {
  std::vector<Bf16> q = RandomNumbers(t * kHeads * kHeadDim);
  const Angles angles(t);
  for (auto _ : state) {
    backend.QueryHeads({q.data(), t, kHeads * kHeadDim}, kHeadDim, 1e-6f, angles.Rows());
    benchmark::DoNotOptimize(q.data());
  }
  return {.bytes = Bf16Bytes(2 * t * kHeads * kHeadDim)};
}

Work WindowKeys(benchmark::State& state, Backend& backend, std::int64_t t) {
  std::vector<Bf16> kv = RandomNumbers(t * kHeadDim);
  const std::vector<Bf16> norm = RandomNumbers(kHeadDim);
  const Angles angles(t);
  for (auto _ : state) {
    backend.WindowKeys({kv.data(), t, kHeadDim}, norm, 1e-6f, angles.Rows());
    benchmark::DoNotOptimize(kv.data());
  }
  return {.bytes = Bf16Bytes(2 * t * kHeadDim)};
}

Work SwiGlu(benchmark::State& state, Backend& backend, std::int64_t t) {
  const std::vector<Bf16> gate = RandomNumbers(t * kExpertWidth);
  std::vector<Bf16> out(gate.size());
  const Matrix<const Bf16> in = {gate.data(), t, kExpertWidth};
  for (auto _ : state) {
    backend.SwiGlu(in, in, 10.0f, {out.data(), t, kExpertWidth});
    benchmark::DoNotOptimize(out.data());
  }
  return {.bytes = Bf16Bytes(3 * t * kExpertWidth)};
}

Work Route(benchmark::State& state, Backend& backend, std::int64_t t) {
  const std::vector<float> logits = RandomFloats(t * kExperts);
  const std::vector<float> bias(kExperts, 0.1f);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(t * kExpertsPerToken));
  std::vector<float> weights(ids.size());
  for (auto _ : state) {
    backend.Route({logits.data(), t, kExperts}, bias, 1.5f,
                  {{ids.data(), t, kExpertsPerToken}, {weights.data(), t, kExpertsPerToken}});
    benchmark::DoNotOptimize(ids.data());
  }
  return {.bytes = 4.0 * static_cast<double>(t * kExperts)};
}

Work CombineExperts(benchmark::State& state, Backend& backend, std::int64_t t) {
  const std::vector<Bf16> rows = RandomNumbers(t * kExpertsPerToken * kHidden);
  const std::vector<Bf16> shared = RandomNumbers(t * kHidden);
  std::vector<Bf16> out(shared.size());
  for (auto _ : state) {
    backend.CombineExperts({rows.data(), t * kExpertsPerToken, kHidden},
                           {shared.data(), t, kHidden}, {out.data(), t, kHidden});
    benchmark::DoNotOptimize(out.data());
  }
  return {.bytes = Bf16Bytes((kExpertsPerToken + 2) * t * kHidden)};
}

// The four streams of t tokens and the gates that mix them.
struct Streams {
  explicit Streams(std::int64_t tokens)
      : t(tokens),
        streams(RandomNumbers(t * kStreams * kHidden)),
        post(static_cast<std::size_t>(t * kStreams), 0.25f),
        comb(static_cast<std::size_t>(t * kStreams * kStreams), 0.25f) {}
  Matrix<Bf16> View() { return {streams.data(), t, kStreams * kHidden}; }
  HcMix Mix() { return {{post.data(), t, kStreams}, {comb.data(), t, kStreams * kStreams}}; }

  const std::int64_t t;
  std::vector<Bf16> streams;
  std::vector<float> post;
  std::vector<float> comb;
};

// Bytes: the weights of the gates, and the streams once.
Work HyperPre(benchmark::State& state, Backend& backend, std::int64_t t) {
  Streams streams(t);
  const std::vector<float> fn(static_cast<std::size_t>(kGates * kStreams * kHidden), 0.01f);
  const std::vector<float> base(kGates, 0.1f);
  const std::vector<float> scale(3, 1.0f);
  std::vector<Bf16> out(static_cast<std::size_t>(t * kHidden));
  for (auto _ : state) {
    backend.HcPre(streams.View(), {fn.data(), base.data(), scale.data()}, {},
                  {out.data(), t, kHidden}, streams.Mix());
    benchmark::DoNotOptimize(out.data());
  }
  return {4.0 * static_cast<double>(fn.size()) + Bf16Bytes((kStreams + 1) * t * kHidden),
          static_cast<double>(t * kGates * kStreams * kHidden)};
}

// streams = post * y + comb^T * streams: five multiply-adds per number.
Work HyperPost(benchmark::State& state, Backend& backend, std::int64_t t) {
  Streams streams(t);
  const std::vector<Bf16> y = RandomNumbers(t * kHidden);
  for (auto _ : state) {
    backend.HcPost({y.data(), t, kHidden}, streams.Mix(), streams.View());
    benchmark::DoNotOptimize(streams.streams.data());
  }
  return {Bf16Bytes((2 * kStreams + 1) * t * kHidden),
          static_cast<double>(t * kHidden * kStreams * (kStreams + 1))};
}

}  // namespace

void RegisterRows(const Registrar& registrar) {
  using Operation = Work (*)(benchmark::State&, Backend&, std::int64_t);
  const std::pair<const char*, Operation> operations[] = {{"rms_norm", RmsNorm},
                                                          {"query_heads", QueryHeads},
                                                          {"window_keys", WindowKeys},
                                                          {"swiglu", SwiGlu},
                                                          {"route", Route},
                                                          {"combine_experts", CombineExperts},
                                                          {"hyper_pre", HyperPre},
                                                          {"hyper_post", HyperPost}};
  for (const auto& [name, operation] : operations) {
    for (const std::int64_t t : kRowCounts) {
      registrar.Add(fmt::format("{}/rows:{}", name, t),
                    [operation = operation, t](benchmark::State& state, Backend& backend) {
                      return operation(state, backend, t);
                    });
    }
  }
}

}  // namespace fathom::benchmarks
