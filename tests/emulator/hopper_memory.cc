// Hopper: shared memory, and meetings.
#include <algorithm>
#include <cstring>

#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {

Hopper::Hopper(RunningKernel& running, std::size_t n_blocks)
    : running_(running),
      windows_(n_blocks),
      threads_(n_blocks * static_cast<std::size_t>(running.grid.threads)),
      warpgroups_((threads_.size() + kWarpgroup - 1) / kWarpgroup) {
  for (Window& window : windows_) {
    window.data.resize(static_cast<std::size_t>(running.grid.shared_bytes));
    window.bytes.resize(window.data.size());
  }
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Tick(i);
  }
  for (Warpgroup& warpgroup : warpgroups_) {
    warpgroup.registers = std::min(kRegistersOfBlock / running.grid.threads / 8 * 8, 248);
  }
}

std::size_t Hopper::Index(int rank, int thread) const {
  return static_cast<std::size_t>(rank) * static_cast<std::size_t>(running_.grid.threads) +
         static_cast<std::size_t>(thread);
}

void Hopper::Tick(std::size_t thread) {
  Clock& clock = threads_[thread].clock;
  clock.See(thread, clock.Seen(thread) + 1);
}

void Hopper::SetError(std::string_view what) {
  if (running_.error.empty()) {
    running_.error = fmt::format("kernel {}: {}", running_.name, what);
  }
}

std::uint32_t Hopper::SharedAddress(int rank, std::int64_t offset) {
  return static_cast<std::uint32_t>(rank + 1) << 24 |
         (kFirstAddress + static_cast<std::uint32_t>(offset));
}

Hopper::Place Hopper::Find(Block& block, std::uint32_t address, std::int64_t bytes,
                           std::string_view what) {
  const auto rank = static_cast<std::size_t>(address >> 24) - 1;
  const std::int64_t offset = std::int64_t{address & 0xFFFFFF} - kFirstAddress;
  if (rank >= windows_.size()) {
    block.Fail(
        fmt::format("thread {} {}: expected an address of a cluster of {} blocks, found {:#x}",
                    block.thread(), what, windows_.size(), address));
  }
  Window& window = windows_[rank];
  if (offset < 0 || offset + bytes > static_cast<std::int64_t>(window.data.size())) {
    block.Fail(fmt::format("thread {} {} bytes {} to {} of shared memory, which has {}",
                           block.thread(), what, offset, offset + bytes, window.data.size()));
  }
  return {&window, static_cast<int>(rank), static_cast<std::size_t>(offset)};
}

void Hopper::CheckWritten(Block& block, const Byte& byte, const Clock& clock, bool runs_beside,
                          std::string_view use, std::size_t offset) {
  const auto fail = [&](std::string_view what) {
    block.Fail(fmt::format("thread {} {} byte {} of shared memory, {}", block.thread(), use, offset,
                           what));
  };
  const auto fail_of_writer = [&](std::string_view before, std::string_view behind) {
    block.Fail(fmt::format(
        "thread {} {} byte {} of shared memory, {}thread {} has written{}", block.thread(), use,
        offset, before, byte.component % static_cast<std::size_t>(running_.grid.threads), behind));
  };
  switch (byte.writer) {
    case Byte::Writer::kNobody:
      break;
    case Byte::Writer::kBarrier:
      fail("which is a barrier");
      break;
    case Byte::Writer::kUnfinishedCopy:
      fail("which an unfinished copy writes");
      break;
    case Byte::Writer::kCopy:
      if (clock.Seen(byte.component) < byte.count) {
        fail("which a copy has written, without a wait for its barrier");
      }
      break;
    case Byte::Writer::kThread:
      if (clock.Seen(byte.component) < byte.count) {
        fail_of_writer("a race: ", " it, without a barrier between them");
      } else if (runs_beside && clock.Fenced(byte.component) < byte.count) {
        fail_of_writer("which ", ", without a FenceProxy behind it");
      }
      break;
  }
}

void Hopper::CheckWritable(Block& block, const Byte& byte, const Clock& clock, bool runs_beside,
                           std::string_view use, std::size_t offset) {
  CheckWritten(block, byte, clock, runs_beside, use, offset);
  if (byte.n_reading > 0) {
    block.Fail(
        fmt::format("thread {} {} byte {} of shared memory, which an unfinished product reads",
                    block.thread(), use, offset));
  }
}

void Hopper::Read(Block& block, std::uint32_t address, std::span<std::byte> to) {
  const Place place = Find(block, address, static_cast<std::int64_t>(to.size()), "reads");
  const Clock& clock = FindThread(block).clock;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Byte& byte = place.window->bytes[place.offset + i];
    if (byte.writer == Byte::Writer::kNobody) {
      block.Fail(fmt::format("thread {} reads byte {} of shared memory, which nobody has written",
                             block.thread(), place.offset + i));
    }
    CheckWritten(block, byte, clock, /*runs_beside=*/false, "reads", place.offset + i);
  }
  std::memcpy(to.data(), place.window->data.data() + place.offset, to.size());
}

void Hopper::Write(Block& block, std::uint32_t address, std::span<const std::byte> from) {
  const Place place = Find(block, address, static_cast<std::int64_t>(from.size()), "writes");
  const std::size_t self = Index(block);
  const Clock& clock = threads_[self].clock;
  for (std::size_t i = 0; i < from.size(); ++i) {
    Byte& byte = place.window->bytes[place.offset + i];
    CheckWritable(block, byte, clock, /*runs_beside=*/false, "writes", place.offset + i);
    byte.writer = Byte::Writer::kThread;
    byte.component = static_cast<std::uint32_t>(self);
    byte.count = clock.Seen(self);
  }
  std::memcpy(place.window->data.data() + place.offset, from.data(), from.size());
}

void Hopper::FenceProxy(Block& block) {
  FindThread(block).clock.Fence();
  Tick(Index(block));  // later writes are not fenced
}

void Hopper::PassBlockBarrier(int rank) {
  Clock all;
  for (int thread = 0; thread < running_.grid.threads; ++thread) {
    all.Join(threads_[Index(rank, thread)].clock);
  }
  for (int thread = 0; thread < running_.grid.threads; ++thread) {
    threads_[Index(rank, thread)].clock = all;
    Tick(Index(rank, thread));
  }
}

void Hopper::Meet(Block& block, Meeting& meeting, int count, const MeetingPoint& point) {
  const std::uint64_t number = meeting.n_passed;
  meeting.clock.Join(FindThread(block).clock);
  if (++meeting.n_arrived == count) {
    meeting.n_arrived = 0;
    ++meeting.n_passed;
    meeting.passed = std::exchange(meeting.clock, Clock());
  }
  block.WaitUntil([&] { return meeting.n_passed > number; }, point);
  FindThread(block).clock.Join(meeting.passed);
  Tick(Index(block));
}

void Hopper::SyncNamed(Block& block, int number, int count, const MeetingPoint& point) {
  if (number < 1 || number > 15 || count % running_.wave_size != 0) {
    block.Fail(
        fmt::format("thread {} calls {}: expected a number from 1 to 15 and whole waves, "
                    "found {} and {} threads",
                    block.thread(), point.operation, number, count));
  }
  Meet(block, named_[16 * block.rank() + number], count, point);
}

void Hopper::SyncCluster(Block& block, const MeetingPoint& point) {
  Meet(block, cluster_meeting_, static_cast<int>(threads_.size()), point);
}

void Hopper::CheckNothingIsUnfinished() {
  if (!copies_.empty()) {
    SetError("it ends with an unfinished copy");
  }
  for (const Warpgroup& warpgroup : warpgroups_) {
    if (!warpgroup.products.empty()) {
      SetError("it ends with an unfinished product of a warpgroup");
    }
  }
}

}  // namespace fathom::kernels::emulator
