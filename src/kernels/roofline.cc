#include "kernels/roofline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/cpu/kernel_tables.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

// The fastest pattern differs between processors, instruction sets and numbers of threads.
constexpr cpu::ReadPattern kPatterns[] = {{1, 0}, {1, 1024}, {1, 4096}, {1, 4096, true},
                                          {4, 0}, {4, 1024}, {4, 4096}, {4, 4096, true}};
constexpr int kReadRounds = 2;
constexpr int kMultiplyRounds = 4;
// Per thread: 5 ms of an AVX-512 core.
constexpr std::int64_t kMultiplyAdds = cpu::kMultiplyAddUnit << 20;

// Plain loops, as in the reference backend: only the compiler's own vectors.
std::int32_t ReadPlainly(const void* data, std::int64_t bytes, const cpu::ReadPattern&) {
  const auto* p = static_cast<const std::byte*>(data);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, p + i, 8);
    sum += word;
  }
  return static_cast<std::int32_t>(sum ^ (sum >> 32));
}

float MultiplyAddPlainly(std::int64_t count) {
  constexpr int kChains = 16;
  float chains[kChains] = {};
  for (std::int64_t i = 0; i < count; i += kChains) {
    for (float& chain : chains) {
      chain = chain * 0.5f + 1.0f;
    }
  }
  return *std::max_element(std::begin(chains), std::end(chains));
}

struct Loops {
  std::int32_t (*read_memory)(const void* data, std::int64_t bytes,
                              const cpu::ReadPattern& pattern);
  float (*multiply_adds)(std::int64_t count);
};

Loops LoopsOf(Isa isa) {
  if (isa == Isa::kScalar) {
    return {ReadPlainly, MultiplyAddPlainly};
  }
  const cpu::Kernels& kernels = cpu::TableOf(isa);
  return {kernels.read_memory, kernels.multiply_adds};
}

// Returns the seconds that body(thread) takes on all threads together. One piece per thread, so
// that each thread has a contiguous part.
template <class Body>
double Time(ThreadTeam& team, const Body& body) {
  const Clock::time_point start = Clock::now();
  team.For(team.n_threads(), 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t thread = first; thread < end; ++thread) {
      body(thread);
    }
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Allocates huge pages as checkpoint/weight_memory.cc does; other memory must forbid them
// explicitly.
Result<PageMemory> Allocate(std::int64_t bytes, bool huge_pages) {
  if (huge_pages) {
    Result<PageMemory> reserved = PageMemory::AllocateReserved(bytes);
    if (reserved) {
      return reserved;
    }
  }
  Result<PageMemory> memory = PageMemory::Allocate(bytes);
  if (memory && !huge_pages) {
    ::madvise(memory->bytes().data(), memory->bytes().size(), MADV_NOHUGEPAGE);
  }
  return memory;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<std::unique_ptr<RooflineProbe>> RooflineProbe::Create(const RooflineOptions& options) {
  Check(options.n_threads >= 1 && options.buffer_bytes >= 1, "a roofline of nothing");
  const std::vector<Isa> available = AvailableIsas();
  if (std::find(available.begin(), available.end(), options.isa) == available.end()) {
    return MakeError(ErrorCode::kUnsupported, "this machine does not have the instruction set {}",
                     Name(options.isa));
  }
  RooflineOptions used = options;
  if (used.isa == Isa::kScalar) {
    used.n_threads = 1;
    while (used.processors.size() > 1) {
      used.processors.pop_back();
    }
  }
  const std::int64_t unit = used.n_threads * cpu::kReadUnit;
  used.buffer_bytes = RoundUp(used.buffer_bytes, unit);
  Result<PageMemory> memory = Allocate(used.buffer_bytes, used.huge_pages);
  if (!memory) {
    return MakeError(memory.error().code, "memory to measure the bandwidth with: {}",
                     memory.error().message);
  }
  std::unique_ptr<RooflineProbe> probe(new RooflineProbe(used, *std::move(memory)));
  probe->Fill();
  return probe;
}

RooflineProbe::RooflineProbe(const RooflineOptions& options, PageMemory memory)
    : options_(options),
      memory_(std::move(memory)),
      team_(options.n_threads, options.processors),
      sink_(static_cast<std::size_t>(options.n_threads)) {}

// Memory that was never written is a single page of zeros.
void RooflineProbe::Fill() {
  const std::int64_t part = options_.buffer_bytes / options_.n_threads;
  Time(team_, [&](std::int64_t thread) {
    std::memset(memory_.bytes().data() + thread * part, static_cast<int>(thread % 255 + 1),
                static_cast<std::size_t>(part));
  });
}

double RooflineProbe::MeasureRead() {
  const Loops loops = LoopsOf(options_.isa);
  const std::int64_t part = options_.buffer_bytes / options_.n_threads;
  reads_.resize(std::size(kPatterns));
  double best = 0;
  for (int round = 0; round < kReadRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kPatterns); ++i) {
      const double seconds = Time(team_, [&](std::int64_t thread) {
        sink_[static_cast<std::size_t>(thread)] +=
            loops.read_memory(memory_.bytes().data() + thread * part, part, kPatterns[i]);
      });
      reads_[i].push_back(1e-9 * static_cast<double>(options_.buffer_bytes) / seconds);
      best = std::max(best, reads_[i].back());
    }
  }
  return best;
}

double RooflineProbe::MeasureMultiplyAdds() {
  const Loops loops = LoopsOf(options_.isa);
  double best = 0;
  for (int round = 0; round < kMultiplyRounds; ++round) {
    const double seconds = Time(team_, [&](std::int64_t thread) {
      sink_[static_cast<std::size_t>(thread)] +=
          std::bit_cast<std::int32_t>(loops.multiply_adds(kMultiplyAdds));
    });
    best = std::max(best, static_cast<double>(2 * kMultiplyAdds * options_.n_threads) / seconds);
  }
  return best * 1e-9;
}

std::int64_t RooflineProbe::page_bytes() const {
  return BytesInHugePages(memory_.bytes()) >= options_.buffer_bytes / 2 ? kHugePageBytes
                                                                        : ::sysconf(_SC_PAGESIZE);
}

Roofline RooflineProbe::Measure() {
  measured_.push_back({.read_gb_s = MeasureRead(), .fma_gflop_s = MeasureMultiplyAdds()});
  return measured_.back();
}

Roofline RooflineProbe::Best() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline best;
  for (const Roofline& one : measured_) {
    best.read_gb_s = std::max(best.read_gb_s, one.read_gb_s);
    best.fma_gflop_s = std::max(best.fma_gflop_s, one.fma_gflop_s);
  }
  return best;
}

Roofline RooflineProbe::Median() const {
  Check(!measured_.empty(), "a roofline that was not measured");
  Roofline median;
  for (const std::vector<double>& reads : reads_) {
    median.read_gb_s = std::max(median.read_gb_s, fathom::Median(reads));
  }
  std::vector<double> multiplies;
  for (const Roofline& one : measured_) {
    multiplies.push_back(one.fma_gflop_s);
  }
  median.fma_gflop_s = fathom::Median(multiplies);
  return median;
}

}  // namespace fathom
