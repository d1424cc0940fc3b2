#include "tests/emulator/block_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {

BlockRunner::BlockRunner(int wave_size, std::int64_t shared_bytes, Visiting visiting,
                         std::uint32_t seed, Asynchrony asynchrony)
    : visiting_(visiting), random_(seed) {
  running_.wave_size = wave_size;
  running_.shared_bytes = shared_bytes;
  running_.asynchrony = asynchrony;
}

BlockRunner::~BlockRunner() = default;

void BlockRunner::Mix(std::vector<std::int64_t>& order) {
  if (visiting_ == Visiting::kRandom) {
    std::shuffle(order.begin(), order.end(), random_);
  }
}

Status BlockRunner::Run(std::string_view name, const Kernel& kernel, const GpuGrid& grid,
                        const void* arguments, bool starts_early) {
  Begin(name, kernel, grid, arguments, starts_early);
  if (starts_early) {
    RunEarly();
  }
  for (Progress progress = Step(); progress != Progress::kEnded; progress = Step()) {
    if (progress == Progress::kStuck && !Unblock()) {
      SetDeadlock();
    }
  }
  return status();
}

void BlockRunner::Begin(std::string_view name, const Kernel& kernel, const GpuGrid& grid,
                        const void* arguments, bool starts_early) {
  Check(grid.threads > 0 && grid.threads <= kernel.most_threads &&
            grid.threads % running_.wave_size == 0,
        "a grid: expected blocks of whole waves, at most the kernel's threads");
  Check(grid.x % kernel.cluster == 0, "a grid: expected whole clusters");
  running_.name = name;
  running_.kernel = kernel;
  running_.grid = grid;
  running_.arguments = arguments;
  running_.starts_early = starts_early;
  running_.error.clear();
  starts_next_early_ = starts_early;
  for (const auto& cluster : unused_) {
    Prepare(*cluster);
  }
  thread_order_.resize(static_cast<std::size_t>(grid.threads));
  std::iota(thread_order_.begin(), thread_order_.end(), 0);
  waiting_.resize(static_cast<std::size_t>(grid.x / kernel.cluster * grid.y));
  std::iota(waiting_.begin(), waiting_.end(), 0);
  if (visiting_ == Visiting::kDescending) {
    std::reverse(thread_order_.begin(), thread_order_.end());
  } else {
    std::reverse(waiting_.begin(), waiting_.end());
  }
  Mix(waiting_);
}

void BlockRunner::Prepare(Cluster& cluster) {
  const auto size = static_cast<std::size_t>(running_.kernel.cluster);
  while (cluster.blocks.size() < size) {
    cluster.blocks.push_back(std::make_unique<Block>());
  }
  cluster.blocks.resize(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    cluster.blocks[rank]->Prepare(running_, cluster, static_cast<int>(rank));
  }
}

void BlockRunner::BeginCluster() {
  if (unused_.empty()) {
    Prepare(*unused_.emplace_back(std::make_unique<Cluster>()));
  }
  Cluster& cluster = *resident_.emplace_back(std::move(unused_.back()));
  unused_.pop_back();
  const std::int64_t first = waiting_.back() * running_.kernel.cluster;
  waiting_.pop_back();
  for (std::size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    const std::int64_t block = first + static_cast<std::int64_t>(rank);
    cluster.blocks[rank]->Start(block % running_.grid.x, static_cast<int>(block / running_.grid.x));
  }
}

void BlockRunner::Leave(std::size_t resident) {
  resident_[resident]->hopper.reset();
  unused_.push_back(std::move(resident_[resident]));
  resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(resident));
}

void BlockRunner::RunEarly() {
  std::vector<std::int64_t> clusters = waiting_;
  running_.earlier_kernels_run = true;
  while (!waiting_.empty() && running_.error.empty()) {
    BeginCluster();
    const Cluster& cluster = *resident_.front();
    while (StepCluster(*resident_.front()) && running_.error.empty()) {
    }
    for (std::size_t i = 0; i < cluster.blocks.size() && running_.error.empty(); ++i) {
      cluster.blocks[i]->CheckEarlyUses();
      starts_next_early_ = starts_next_early_ && cluster.blocks[i]->HasStartedDependents();
    }
    Leave(0);
  }
  running_.earlier_kernels_run = false;
  waiting_.clear();
  if (running_.error.empty()) {
    waiting_ = std::move(clusters);
  }
}

bool BlockRunner::StepCluster(Cluster& cluster) {
  bool moved = false;
  for (const auto& block : cluster.blocks) {
    Mix(thread_order_);
    moved = block->Visit(thread_order_, visiting_ != Visiting::kRandom) || moved;
    if (!running_.error.empty()) break;
  }
  return moved;
}

bool BlockRunner::HasEnded(Cluster& cluster) {
  for (const auto& block : cluster.blocks) {
    if (!block->HasEnded()) return false;
  }
  for (const auto& block : cluster.blocks) {
    block->CheckWaited();
  }
  if (cluster.hopper != nullptr) {
    cluster.hopper->CheckNothingIsUnfinished();
  }
  return true;
}

BlockRunner::Progress BlockRunner::Step() {
  if (resident_.empty() && !waiting_.empty()) {
    BeginCluster();
  }
  bool moved = false;
  for (std::size_t i = 0; i < resident_.size() && running_.error.empty();) {
    moved = StepCluster(*resident_[i]) || moved;
    if (running_.error.empty() && HasEnded(*resident_[i])) {
      Leave(i);
    } else {
      ++i;
    }
  }
  if (!running_.error.empty()) {
    resident_.clear();
    waiting_.clear();
  }
  if (resident_.empty() && waiting_.empty()) return Progress::kEnded;
  return moved ? Progress::kMoved : Progress::kStuck;
}

bool BlockRunner::Unblock() {
  bool waits = false;
  for (const auto& cluster : resident_) {
    if (cluster->hopper != nullptr && cluster->hopper->FinishOneCopy()) return true;
    for (const auto& block : cluster->blocks) {
      waits = waits || block->WaitsForOthers();
    }
  }
  if (!waits || waiting_.empty()) return false;
  BeginCluster();
  return true;
}

void BlockRunner::SetDeadlock() {
  for (const auto& block : resident_.front()->blocks) {
    if (!block->HasEnded()) {
      running_.error = block->DescribeWaiting();
      return;
    }
  }
}

Status BlockRunner::status() const {
  if (running_.error.empty()) return {};
  return MakeError(ErrorCode::kInvalidData, "{}", running_.error);
}

}  // namespace fathom::kernels::emulator
