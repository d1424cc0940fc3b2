// Shared by the kernel benchmarks: backends, made-up data, and rates beside the limits of the
// machine.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/roofline.h"

namespace fathom::benchmarks {

// The sizes of V4-Flash.
inline constexpr std::int64_t kHidden = 4096;
inline constexpr std::int64_t kHeads = 64;
inline constexpr std::int64_t kHeadDim = 512;
inline constexpr std::int64_t kRopePairs = 32;
inline constexpr std::int64_t kWindow = 128;
inline constexpr std::int64_t kIndexHeads = 64;
inline constexpr std::int64_t kTopRows = 512;
inline constexpr std::int64_t kExperts = 256;
inline constexpr std::int64_t kExpertsPerToken = 6;
inline constexpr std::int64_t kExpertWidth = 2048;
inline constexpr std::int64_t kMaxTokens = 512;
inline constexpr std::int64_t kRowCounts[] = {1, 2, 4, 8, 64, 512};

inline constexpr std::int64_t kPoolBytes = 256 << 20;  // beyond every cache

struct Setting {
  Isa isa = Isa::kAvx2;
  int n_threads = 1;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};

// The work of one iteration; counted as in measure/bench/costs.h.
struct Work {
  double bytes = 0;          // of weights, cached rows or activations
  double multiply_adds = 0;  // multiply-adds that the result requires
};

// Measures the limits of the machine, for every setting and again from time to time. One thread.
class Rooflines {
 public:
  // Returns the best measurement so far of this setting; measures again if the last one is seconds
  // old.
  Roofline Of(const Setting& setting);

 private:
  struct Entry {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<RooflineProbe> probe;
    std::chrono::steady_clock::time_point measured;
  };
  std::map<Setting, Entry> entries_;
};

// A benchmark: sets up and runs the loop of `state` on a backend, and returns the work of an
// iteration.
using Body = std::function<Work(benchmark::State& state, Backend& backend)>;

// Registers benchmarks of one setting under "isa/name/threads:N". The rooflines must outlive the
// run.
class Registrar {
 public:
  Registrar(const Setting& setting, Rooflines& rooflines)
      : setting_(setting), rooflines_(rooflines) {}
  // Counters: GB/s, GFLOP/s and the percentage of each limit; rates without work are left out.
  void Add(const std::string& name, Body body) const;

 private:
  Setting setting_;
  Rooflines& rooflines_;
};

void RegisterProducts(const Registrar& registrar);  // product_bench.cc
void RegisterRows(const Registrar& registrar);      // row_bench.cc
void RegisterCaches(const Registrar& registrar);    // cache_bench.cc

// --- Data, the same in every run

// As the upper byte of a bf16, moderate exponents.
std::vector<std::byte> RandomBytes(std::int64_t n);

// E4M3 codes as a checkpoint has them: of normal numbers, whose largest of a block is about 448.
// One of 8,000 is subnormal, which some processors compute with much more slowly.
std::vector<std::byte> RandomE4m3(std::int64_t n);
std::vector<Bf16> RandomNumbers(std::int64_t n);
std::vector<float> RandomFloats(std::int64_t n);

struct BatchArrays {
  std::vector<Token> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> segment_of_row;
  std::vector<Segment> segments;
  BatchView View() const { return {tokens, positions, segment_of_row, segments}; }
};
BatchArrays OneSegment(std::int64_t first_position, std::int64_t n_tokens);

// Owns cos and sin of t rows.
struct Angles {
  explicit Angles(std::int64_t t);
  RopeRows Rows() const;
  std::int64_t n_rows;
  std::vector<float> values;
};

}  // namespace fathom::benchmarks
