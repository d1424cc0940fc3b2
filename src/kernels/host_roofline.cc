#include "kernels/host_roofline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/pages.h"
#include "base/thread_team.h"
#include "kernels/cpu/kernels.h"

namespace fathom::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// The fastest pattern differs between processors, instruction sets and numbers of threads.
constexpr cpu::ReadPattern kPatterns[] = {{1, 0}, {1, 1024}, {1, 4096}, {1, 4096, true},
                                          {4, 0}, {4, 1024}, {4, 4096}, {4, 4096, true}};
constexpr int kReadRounds = 2;
constexpr int kMultiplyRounds = 4;
// Multiply-adds per thread: 5 ms of an AVX-512 core.
constexpr std::int64_t kMultiplyAdds = cpu::kMultiplyAddUnit << 20;

// Reads in plain loops, as the reference backend does: with the compiler's own vectors only.
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

Loops MakeLoops(Isa isa) {
  if (isa == Isa::kScalar) return {ReadPlainly, MultiplyAddPlainly};
  const cpu::Kernels& kernels = cpu::KernelsFor(isa);
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
    if (reserved) return reserved;
  }
  Result<PageMemory> memory = PageMemory::Allocate(bytes);
  if (memory && !huge_pages) {
    ::madvise(memory->bytes().data(), memory->bytes().size(), MADV_NOHUGEPAGE);
  }
  return memory;
}

// Owns the memory and the threads.
class HostRooflineProbe final : public RooflineProbe {
 public:
  // Each thread reads part_bytes of the memory.
  HostRooflineProbe(const Loops& loops, int n_threads, std::span<const int> processors,
                    PageMemory memory, std::int64_t part_bytes)
      : loops_(loops),
        memory_(std::move(memory)),
        team_(n_threads, processors),
        part_bytes_(part_bytes),
        sink_(static_cast<std::size_t>(n_threads)) {
    Fill();
  }

  int n_threads() const override { return team_.n_threads(); }
  std::int64_t page_bytes() const override {
    return BytesInHugePages(memory_.bytes()) >= part_bytes_ * n_threads() / 2
               ? kHugePageBytes
               : ::sysconf(_SC_PAGESIZE);
  }

 private:
  void Fill();
  Result<Roofline> MeasureOnce(std::vector<std::vector<double>>& reads) override {
    return Roofline{.read_gb_s = MeasureReads(reads), .fma_gflop_s = MeasureMultiplyAdds()};
  }
  // Returns the best measurement.
  double MeasureReads(std::vector<std::vector<double>>& reads);
  double MeasureMultiplyAdds();

  const Loops loops_;
  PageMemory memory_;
  ThreadTeam team_;
  const std::int64_t part_bytes_;
  std::vector<std::int64_t> sink_;  // per thread: keeps the results alive
};

// Writes the memory, because memory that was never written is a single page of zeros.
void HostRooflineProbe::Fill() {
  Time(team_, [&](std::int64_t thread) {
    std::memset(memory_.bytes().data() + thread * part_bytes_, static_cast<int>(thread % 255 + 1),
                static_cast<std::size_t>(part_bytes_));
  });
}

double HostRooflineProbe::MeasureReads(std::vector<std::vector<double>>& reads) {
  reads.resize(std::size(kPatterns));
  double best = 0;
  for (int round = 0; round < kReadRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kPatterns); ++i) {
      const double seconds = Time(team_, [&](std::int64_t thread) {
        sink_[static_cast<std::size_t>(thread)] += loops_.read_memory(
            memory_.bytes().data() + thread * part_bytes_, part_bytes_, kPatterns[i]);
      });
      reads[i].push_back(1e-9 * static_cast<double>(part_bytes_ * n_threads()) / seconds);
      best = std::max(best, reads[i].back());
    }
  }
  return best;
}

double HostRooflineProbe::MeasureMultiplyAdds() {
  double best = 0;
  for (int round = 0; round < kMultiplyRounds; ++round) {
    const double seconds = Time(team_, [&](std::int64_t thread) {
      sink_[static_cast<std::size_t>(thread)] +=
          std::bit_cast<std::int32_t>(loops_.multiply_adds(kMultiplyAdds));
    });
    best = std::max(best, static_cast<double>(2 * kMultiplyAdds * n_threads()) / seconds);
  }
  return best * 1e-9;
}

}  // namespace

Result<std::unique_ptr<RooflineProbe>> MakeHostRooflineProbe(Isa isa, int n_threads,
                                                             std::span<const int> processors,
                                                             const RooflineOptions& options) {
  Check(n_threads >= 1 && options.buffer_bytes >= 1, "a roofline of nothing");
  const std::int64_t bytes = RoundUp(options.buffer_bytes, n_threads * cpu::kReadUnit);
  Result<PageMemory> memory = Allocate(bytes, options.huge_pages);
  if (!memory) {
    return MakeError(memory.error().code, "memory to measure the bandwidth with: {}",
                     memory.error().message);
  }
  return std::make_unique<HostRooflineProbe>(MakeLoops(isa), n_threads, processors,
                                             *std::move(memory), bytes / n_threads);
}

}  // namespace fathom::kernels
