#include "tests/emulator/block.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/result.h"
#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {
namespace {

constexpr std::int32_t kSeveral = -1;  // several threads read an element

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

struct Block::OwnedShared {
  SharedMemory memory;
  std::vector<std::byte> data;
  std::vector<ElementUse> uses;
};

Block::Block() = default;
Block::~Block() = default;
Cluster::Cluster() = default;
Cluster::~Cluster() = default;

void Block::Prepare(RunningKernel& running, Cluster& cluster, int rank) {
  running_ = &running;
  cluster_ = &cluster;
  rank_ = rank;
  shared_.clear();
  static_bytes_ = 0;
  const auto n_threads = static_cast<std::size_t>(running.grid.threads);
  while (fibers_.size() < n_threads) {
    fibers_.push_back(std::make_unique<Fiber>());
  }
  states_.resize(n_threads);
  points_.resize(n_threads);
  conditions_.resize(n_threads);
  met_.resize(n_threads);
}

void Block::Start(std::int64_t x, int y) {
  block_x_ = x;
  block_y_ = y;
  first_epoch_ = ++epoch_;
  waits_for_earlier_ = false;
  dependents_started_ = {};
  early_use_.clear();
  waves_.assign(states_.size() / static_cast<std::size_t>(running_->wave_size), Wave());
  n_met_.assign(2 * states_.size(), 0);
  std::fill(states_.begin(), states_.end(), State::kReady);
  std::fill(points_.begin(), points_.end(), MeetingPoint());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    fibers_[i]->Start(&RunThread, this);
  }
}

void Block::RunThread(void* block) {
  auto& self = *static_cast<Block*>(block);
  self.running_->kernel.run(self.running_->arguments);
  self.states_[static_cast<std::size_t>(self.thread_)] = State::kEnded;
}

std::int64_t Block::TakeReady() {
  const auto wave = static_cast<std::size_t>(running_->wave_size);
  for (;;) {
    while (next_ < part_end_) {
      const std::int64_t i = order_[next_++];
      const auto at = static_cast<std::size_t>(i);
      if (states_[at] == State::kWaiting && conditions_[at].is_true(conditions_[at].argument)) {
        states_[at] = State::kReady;
      }
      if (states_[at] == State::kReady) {
        has_moved_ = true;
        return i;
      }
    }
    const bool is_whole = part_begin_ == 0 && part_end_ == order_.size();
    if (!has_moved_ || is_whole) {
      if (part_end_ == order_.size()) return -1;
      part_begin_ = part_end_;
      part_end_ += wave;
    }
    next_ = part_begin_;
    has_moved_ = false;
  }
}

bool Block::Visit(std::span<const std::int64_t> order, bool by_waves) {
  Block* const before = std::exchange(running_block_, this);
  order_ = order;
  part_begin_ = 0;
  part_end_ = by_waves ? static_cast<std::size_t>(running_->wave_size) : order.size();
  next_ = 0;
  has_moved_ = false;
  bool any = false;
  for (std::int64_t i = TakeReady(); i >= 0; i = TakeReady()) {
    any = true;
    thread_ = static_cast<int>(i);
    fibers_[static_cast<std::size_t>(i)]->Resume();
    if (!running_->error.empty()) break;
  }
  if (any && CanPassBarrier()) {
    ++epoch_;
    std::fill(states_.begin(), states_.end(), State::kReady);
    if (cluster_->hopper != nullptr) {
      cluster_->hopper->PassBlockBarrier(rank_);
    }
  }
  running_block_ = before;
  return any;
}

bool Block::HasEnded() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](State state) { return state == State::kEnded; });
}

bool Block::WaitsForOthers() const {
  return std::find(states_.begin(), states_.end(), State::kWaiting) != states_.end();
}

bool Block::CanPassBarrier() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](State state) { return state == State::kAtBlock; }) &&
         std::all_of(points_.begin(), points_.end(),
                     [&](const MeetingPoint& point) { return point == points_.front(); });
}

std::string Block::Describe(int thread) const {
  const auto at = static_cast<std::size_t>(thread);
  if (states_[at] == State::kEnded) return fmt::format("thread {} has ended", thread);
  const MeetingPoint& point = points_[at];
  return fmt::format("thread {} waits at {} ({}:{})", thread, point.operation, FileName(point.file),
                     point.line);
}

std::string Block::DescribeWaiting() const {
  std::size_t other = 1;
  while (other + 1 < states_.size() && states_[other] == states_.front() &&
         points_[other] == points_.front()) {
    ++other;
  }
  return fmt::format(
      "kernel {}, block ({}, {}): expected {}, found: {}, {}", running_->name, block_x_, block_y_,
      WaitsForOthers() ? "a thread that can go on" : "all threads at one meeting point",
      Describe(0), Describe(static_cast<int>(other)));
}

void Block::Pause() {
  Fiber& own = *fibers_[static_cast<std::size_t>(thread_)];
  const std::int64_t next = TakeReady();
  if (next < 0) {
    own.Pause();
  } else if (next != thread_) {
    thread_ = static_cast<int>(next);
    own.SwitchTo(*fibers_[static_cast<std::size_t>(next)]);
  }
}

void Block::SetError(std::string_view what) {
  running_->error =
      fmt::format("kernel {}, block ({}, {}): {}", running_->name, block_x_, block_y_, what);
}

void Block::Fail(std::string what) {
  SetError(what);
  std::string().swap(what);
  fibers_[static_cast<std::size_t>(thread_)]->Pause();
  Check(false, "a thread of a kernel goes on behind an error");
  __builtin_unreachable();
}

Hopper& Block::hopper() {
  if (cluster_->hopper == nullptr) {
    if (running_->grid.shared_bytes > running_->shared_bytes) {
      Fail(fmt::format("expected at most {} bytes of shared memory, found {}",
                       running_->shared_bytes, running_->grid.shared_bytes));
    }
    cluster_->hopper = std::make_unique<Hopper>(*running_, cluster_->blocks.size());
  }
  return *cluster_->hopper;
}

void Block::SyncBlock(const MeetingPoint& point) {
  const auto at = static_cast<std::size_t>(thread_);
  states_[at] = State::kAtBlock;
  points_[at] = point;
  Pause();
}

void Block::Wait(const Condition& condition, const MeetingPoint& point) {
  if (condition.is_true(condition.argument)) return;
  const auto at = static_cast<std::size_t>(thread_);
  states_[at] = State::kWaiting;
  points_[at] = point;
  conditions_[at] = condition;
  Pause();
}

void Block::StartDependents(const MeetingPoint& point) { dependents_started_ = point; }

void Block::WaitForEarlier(const MeetingPoint& point) {
  if (!running_->starts_early) {
    Fail(fmt::format(
        "thread {} calls {} ({}:{}): expected a kernel that is launched to start early, found one "
        "that is launched to start after all earlier ones",
        thread_, point.operation, FileName(point.file), point.line));
  }
  waits_for_earlier_ = true;
  WaitUntil([this] { return !running_->earlier_kernels_run; }, point);
}

void Block::NoteEarlyUse(const std::string& use) {
  if (early_use_.empty()) {
    early_use_ = fmt::format("thread {} {}", thread_, use);
  }
}

void Block::CheckWaited() {
  if (!running_->starts_early || waits_for_earlier_ || !running_->error.empty()) return;
  SetError(fmt::format(
      "expected WaitForEarlierKernels in every block of a kernel that starts early, found {}",
      HasStartedDependents()
          ? fmt::format("one that calls {} ({}:{}) and ends without waiting",
                        dependents_started_.operation, FileName(dependents_started_.file),
                        dependents_started_.line)
          : "one that ends without waiting"));
}

void Block::CheckEarlyUses() {
  if (HasEnded()) {
    CheckWaited();
  }
  if (running_->error.empty() && !early_use_.empty()) {
    SetError(fmt::format("expected WaitForEarlierKernels first, found: {}", early_use_));
  }
}

void Block::ReleaseGroup(std::size_t first, std::size_t size) {
  const MeetingPoint& point = points_[static_cast<std::size_t>(thread_)];
  for (std::size_t i = first; i < first + size; ++i) {
    if (!(points_[i] == point)) {
      std::string found = fmt::format(
          "expected all threads of a {} in one collective, found: {}, {}",
          size == 128 ? "warpgroup" : "wave", Describe(thread_), Describe(static_cast<int>(i)));
      Fail(std::move(found));
    }
    states_[i] = State::kReady;
  }
}

std::uint64_t Block::Exchange(std::uint64_t value, int from, const MeetingPoint& point) {
  const auto at = static_cast<std::size_t>(thread_);
  const auto size = static_cast<std::size_t>(running_->wave_size);  // a power of two
  const std::size_t lane = at & (size - 1);
  Wave& wave = waves_[at >> std::countr_zero(size)];
  const int turn = wave.turn;
  wave.values[turn][lane] = value;
  states_[at] = State::kInGroup;
  points_[at] = point;
  if (++wave.n_arrived < running_->wave_size) {
    Pause();
  } else {
    ReleaseGroup(at - lane, size);
    wave.n_arrived = 0;
    wave.turn = 1 - turn;
  }
  if (from < 0 || from >= running_->wave_size) {
    Fail(fmt::format("expected a lane below {}, found {}", running_->wave_size, from));
  }
  return wave.values[turn][from];
}

void Block::Meet(int size, void* argument, void (*run)(std::span<void* const>),
                 const MeetingPoint& point) {
  const auto at = static_cast<std::size_t>(thread_);
  const auto n = static_cast<std::size_t>(size);
  const std::size_t first = at - at % n;
  if (first + n > states_.size()) {
    Fail(fmt::format("thread {} calls {}: expected groups of {} threads, found a block of {}",
                     thread_, point.operation, size, states_.size()));
  }
  met_[at] = argument;
  states_[at] = State::kInGroup;
  points_[at] = point;
  // Waves and warpgroups are counted separately: other waves of a warpgroup may be ahead.
  int& n_met = n_met_[2 * first + (size > running_->wave_size ? 1 : 0)];
  if (++n_met < size) {
    Pause();
    return;
  }
  n_met = 0;
  ReleaseGroup(first, n);
  run(std::span(met_).subspan(first, n));
}

SharedMemory& Block::FindShared(const void* site, std::string_view name, std::int64_t count,
                                std::int64_t element_bytes, std::int64_t dynamic_end) {
  for (const auto& shared : shared_) {
    if (shared->memory.site == site) return shared->memory;
  }
  static_bytes_ += dynamic_end > 0 ? 0 : RoundUp(count * element_bytes, 16);
  if (dynamic_end > running_->grid.shared_bytes ||
      static_bytes_ + running_->grid.shared_bytes > running_->shared_bytes) {
    Fail(fmt::format("shared memory '{}' ends at byte {} of {}, {} of {} bytes are used", name,
                     dynamic_end, running_->grid.shared_bytes,
                     static_bytes_ + running_->grid.shared_bytes, running_->shared_bytes));
  }
  OwnedShared& shared = *shared_.emplace_back(std::make_unique<OwnedShared>());
  shared.data.resize(static_cast<std::size_t>(count * element_bytes));
  shared.uses.resize(static_cast<std::size_t>(count));
  shared.memory = {.site = site,
                   .name = name,
                   .data = shared.data.data(),
                   .uses = shared.uses.data(),
                   .count = count};
  return shared.memory;
}

void Block::CheckRead(const SharedMemory& memory, std::int64_t index) {
  if (index < 0 || index >= memory.count) {
    Fail(fmt::format("thread {} reads '{}' at {}, expected an index below {}", thread_, memory.name,
                     index, memory.count));
  }
  ElementUse& use = memory.uses[index];
  if (use.written < first_epoch_) {
    Fail(fmt::format("thread {} reads '{}' at {}, which nobody has written", thread_, memory.name,
                     index));
  }
  if (use.written == epoch_ && use.writer != thread_) {
    Fail(
        fmt::format("a race: thread {} reads '{}' at {}, which thread {} writes, without a "
                    "barrier between them",
                    thread_, memory.name, index, use.writer));
  }
  use.reader = use.read == epoch_ && use.reader != thread_ ? kSeveral : thread_;
  use.read = epoch_;
}

void Block::CheckWrite(const SharedMemory& memory, std::int64_t index) {
  if (index < 0 || index >= memory.count) {
    Fail(fmt::format("thread {} writes '{}' at {}, expected an index below {}", thread_,
                     memory.name, index, memory.count));
  }
  ElementUse& use = memory.uses[index];
  const bool written = use.written == epoch_ && use.writer != thread_;
  if (written || (use.read == epoch_ && use.reader != thread_)) {
    std::string race = fmt::format(
        "a race: thread {} writes '{}' at {}, which {} {}, without a barrier between them", thread_,
        memory.name, index,
        written                  ? fmt::format("thread {}", use.writer)
        : use.reader == kSeveral ? "several threads"
                                 : fmt::format("thread {}", use.reader),
        written ? "writes" : "read");
    Fail(std::move(race));
  }
  use.writer = thread_;
  use.written = epoch_;
}

SharedMemory& FindShared(const void* site, std::string_view name, std::int64_t count,
                         std::int64_t element_bytes) {
  return Block::Running().FindShared(site, name, count, element_bytes, /*dynamic_end=*/0);
}

SharedMemory& FindDynamicShared(const void* site, std::string_view name, std::int64_t offset,
                                std::int64_t count, std::int64_t element_bytes) {
  return Block::Running().FindShared(site, name, count, element_bytes,
                                     offset + count * element_bytes);
}

void CheckRead(const SharedMemory& memory, std::int64_t index) {
  Block::Running().CheckRead(memory, index);
}

void CheckWrite(const SharedMemory& memory, std::int64_t index) {
  Block::Running().CheckWrite(memory, index);
}

}  // namespace fathom::kernels::emulator
