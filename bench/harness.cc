#include "bench/harness.h"

#include <fmt/format.h>

#include <random>

#include "base/check.h"
#include "kernels/registry.h"

namespace fathom::benchmarks {
namespace {

constexpr std::chrono::seconds kRooflineAge{5};

std::unique_ptr<Backend> MakeSettingBackend(const Setting& setting) {
  Result<std::unique_ptr<Backend>> backend =
      MakeBackend("cpu", {.n_threads = setting.n_threads, .cpu_isa = setting.isa});
  Check(backend.has_value(), "a backend for an instruction set that is there");
  return *std::move(backend);
}

std::unique_ptr<Backend> ReservedBackend(const Setting& setting) {
  std::unique_ptr<Backend> backend = MakeSettingBackend(setting);
  const Status reserved = backend->Reserve({.max_tokens = kMaxTokens,
                                            .max_linear_inputs = 2 * kHidden,
                                            .hidden = kHidden,
                                            .head_dim = kHeadDim,
                                            .experts_per_token = kExpertsPerToken,
                                            .n_experts = kExperts,
                                            .moe_intermediate = kExpertWidth,
                                            .sliding_window = kWindow,
                                            .max_compressed_rows = 1 << 17});
  Check(reserved.has_value(), "memory for the scratch of a backend");
  return backend;
}

void SetCounters(benchmark::State& state, const Work& work, const Roofline& roofline) {
  const auto rate = [&](double per_iteration) {
    return benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (work.bytes > 0) {
    const double gigabytes = work.bytes * 1e-9;
    state.counters["GB/s"] = rate(gigabytes);
    state.counters["%read"] = rate(100 * gigabytes / roofline.read_gb_s);
  }
  if (work.multiply_adds > 0) {
    const double gigaflops = 2e-9 * work.multiply_adds;
    state.counters["GFLOP/s"] = rate(gigaflops);
    state.counters["%fma"] = rate(100 * gigaflops / roofline.fma_gflop_s);
  }
}

}  // namespace

Roofline Rooflines::Of(const Setting& setting) {
  Entry& entry = entries_[setting];
  if (entry.probe == nullptr) {
    entry.backend = MakeSettingBackend(setting);
    auto probe = entry.backend->MakeRooflineProbe({.buffer_bytes = kPoolBytes});
    Check(probe.has_value(), "memory to measure the bandwidth with");
    entry.probe = *std::move(probe);
  }
  const auto now = std::chrono::steady_clock::now();
  if (entry.probe->n_measurements() == 0 || now - entry.measured > kRooflineAge) {
    Check(entry.probe->Measure().has_value(), "processors that measure");
    entry.measured = now;
  }
  return entry.probe->Median();
}

void Registrar::Add(const std::string& name, Body body) const {
  const std::string full =
      fmt::format("{}/{}/threads:{}", Name(setting_.isa), name, setting_.n_threads);
  benchmark::RegisterBenchmark(full.c_str(), [setting = setting_, &rooflines = rooflines_,
                                              body = std::move(body)](benchmark::State& state) {
    const Roofline roofline = rooflines.Of(setting);
    const std::unique_ptr<Backend> backend = ReservedBackend(setting);
    SetCounters(state, body(state, *backend), roofline);
  })->UseRealTime();
}

namespace {

// Calls take(bits) with other bits for each byte.
template <class Take>
std::vector<std::byte> FillBytes(std::int64_t n, const Take& take) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  std::uint64_t state = 88172645463325252u;
  for (std::byte& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = take(state);
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> RandomBytes(std::int64_t n) {
  return FillBytes(
      n, [](std::uint64_t bits) { return static_cast<std::byte>((bits & 0x83u) | 0x38u); });
}

std::vector<std::byte> RandomE4m3(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, kE4m3Maximum / 4);
  std::vector<std::byte> codes(1 << 16);
  for (std::byte& code : codes) {
    code = std::byte{FloatToE4m3(normal(random))};
  }
  return FillBytes(n, [&codes](std::uint64_t bits) { return codes[bits % codes.size()]; });
}

std::vector<float> RandomFloats(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(n));
  for (float& x : numbers) {
    x = normal(random);
  }
  return numbers;
}

std::vector<Bf16> RandomNumbers(std::int64_t n) {
  const std::vector<float> floats = RandomFloats(n);
  std::vector<Bf16> numbers;
  numbers.reserve(floats.size());
  for (const float x : floats) {
    numbers.push_back(ToBf16(x));
  }
  return numbers;
}

BatchArrays OneSegment(std::int64_t first_position, std::int64_t n_tokens) {
  BatchArrays batch;
  batch.segments.push_back({.n_tokens = static_cast<std::int32_t>(n_tokens),
                            .first_position = static_cast<std::int32_t>(first_position)});
  for (std::int64_t i = 0; i < n_tokens; ++i) {
    batch.tokens.push_back(0);
    batch.positions.push_back(static_cast<std::int32_t>(first_position + i));
    batch.segment_of_row.push_back(0);
  }
  return batch;
}

Angles::Angles(std::int64_t t)
    : n_rows(t), values(static_cast<std::size_t>(t * kRopePairs), 0.5f) {}

RopeRows Angles::Rows() const {
  return {{values.data(), n_rows, kRopePairs}, {values.data(), n_rows, kRopePairs}};
}

}  // namespace fathom::benchmarks
