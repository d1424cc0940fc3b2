#include "tools/gpu_checks/probes/weights.h"

#include <algorithm>

#include "tools/gpu_checks/probes/streaming.h"

namespace fathom::probe {
namespace {

constexpr std::int64_t kLeastWeights = 256 << 20;
constexpr std::int64_t kQuickWeights = 1 << 20;

}  // namespace

Weights::Weights(const ProbeRun& run)
    : device_(run.device()),
      bytes_(run.Size(kQuickWeights, std::max(kLeastWeights, 4 * device_.cache_bytes()))),
      blocks_(run.Size(2, 2 * device_.n_multiprocessors())),
      memory_(static_cast<Vector16*>(device_.Allocate(bytes_))),
      other_(static_cast<Vector16*>(device_.Allocate(bytes_))),
      sums_(device_.AllocateArray<std::uint32_t>(blocks_ * kStreamThreads)),
      times_(device_.AllocateArray<BlockTimes>(blocks_)) {
  device_.Fill(memory_, kByte, bytes_);
  device_.Fill(other_, kByte, bytes_);
}

const Vector16* Weights::Part(int i, std::int64_t bytes) const {
  return memory_ + i * (bytes / static_cast<std::int64_t>(sizeof(Vector16)));
}

void Weights::ForgetInCache() {
  device_.Launch("StreamRegisters", {.x = blocks_, .threads = kStreamThreads},
                 StreamArguments{.from = other_, .n = bytes_ / 16, .sums = sums_, .times = times_});
}

std::uint32_t Weights::SumOfWords(std::int64_t bytes) { return SumOfFilled(kByte, bytes); }

}  // namespace fathom::probe
