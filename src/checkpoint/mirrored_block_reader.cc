#include "checkpoint/mirrored_block_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/integer_math.h"
#include "base/pages.h"

namespace fathom::checkpoint {
namespace {

// The weight of the newest read in the average speed of a drive.
constexpr double kNewest = 1.0 / 16;
// After a failed read, a drive gets fewer reads until its reads are fast again.
constexpr double kAfterFailure = 0.25;
// The lowest estimate of a speed: a drive without reads could not become faster.
constexpr double kSlowest = 1e6;
// The speed of drives that were not measured.
constexpr double kUnknownSpeed = 1e9;

constexpr std::int64_t kCompared = std::int64_t{1} << 20;  // bytes of one comparison
constexpr std::int64_t kSpreadBlocks = 32;                 // blocks of a shard, after its header

// Compares blocks from `offset` on, of which n_needed bytes exist.
Status CompareBlocks(BlockReader& original, BlockReader& mirror, std::size_t file,
                     std::int64_t offset, std::int64_t n_needed, std::span<std::byte> memory) {
  const auto size = static_cast<std::size_t>(RoundUp(n_needed, kReadBlockBytes));
  const std::span<std::byte> ours = memory.first(size), theirs = memory.subspan(kCompared, size);
  if (Status read = ReadBlocks(original, file, offset, ours, n_needed); !read) return read;
  if (Status read = ReadBlocks(mirror, file, offset, theirs, n_needed); !read) return read;
  const auto end = ours.begin() + n_needed;
  const auto [found, other] = std::mismatch(ours.begin(), end, theirs.begin());
  if (found == end) return {};
  return MakeError(ErrorCode::kInvalidData,
                   "{}: no mirror of {}: expected the same bytes, found others at offset {}",
                   mirror.FileName(file), original.FileName(file), offset + (found - ours.begin()));
}

// Returns the bytes before the first tensor of a shard; 0 if it has none.
std::int64_t HeaderBytes(const Checkpoint& checkpoint, std::size_t file) {
  const std::span<const Checkpoint::Tensor> tensors = checkpoint.tensors();
  auto tensor = std::ranges::lower_bound(tensors, file, {}, &Checkpoint::Tensor::shard);
  for (; tensor != tensors.end() && tensor->shard == file; ++tensor) {
    if (tensor->view.bytes.empty()) continue;
    const auto place = checkpoint.Locate(tensor->view.bytes.data());
    return place ? place->offset : 0;
  }
  return 0;
}

}  // namespace

Status CheckMirror(const Checkpoint& checkpoint, BlockReader& original, BlockReader& mirror) {
  const Result<PageMemory> memory = PageMemory::Allocate(2 * kCompared);
  if (!memory) return Unexpected(memory.error());
  for (std::size_t file = 0; file < checkpoint.shards().size(); ++file) {
    const std::int64_t all = checkpoint.shards()[file].bytes;
    const std::int64_t header = std::min(all, HeaderBytes(checkpoint, file));
    const auto compare = [&](std::int64_t offset, std::int64_t most) {
      return CompareBlocks(original, mirror, file, offset, std::min(most, all - offset),
                           memory->bytes());
    };
    std::int64_t offset = 0;
    for (; offset < header; offset += kCompared) {
      if (Status same = compare(offset, kCompared); !same) return same;
    }
    const std::int64_t blocks = (all - offset) / kReadBlockBytes;
    for (std::int64_t i = 0; i < std::min(blocks, kSpreadBlocks); ++i) {
      const std::int64_t block = blocks * i / std::min(blocks, kSpreadBlocks);
      if (Status same = compare(offset + block * kReadBlockBytes, kReadBlockBytes); !same) {
        return same;
      }
    }
  }
  return {};
}

MirroredBlockReader::MirroredBlockReader(Drive original, Drive mirror,
                                         std::function<void(const std::string&)> warn)
    : warn_(std::move(warn)),
      drives_{State{.drive = std::move(original)}, State{.drive = std::move(mirror)}} {
  const double known =
      std::max(drives_[0].drive.bytes_per_second, drives_[1].drive.bytes_per_second);
  for (State& state : drives_) {
    double& speed = state.drive.bytes_per_second;
    if (speed <= 0) speed = known > 0 ? known : kUnknownSpeed;
  }
}

std::size_t MirroredBlockReader::ChooseDrive(std::int64_t bytes) const {
  const auto seconds = [bytes](const State& state) {
    return static_cast<double>(state.waiting + bytes) / state.drive.bytes_per_second;
  };
  return seconds(drives_[1]) < seconds(drives_[0]) ? 1 : 0;
}

// Reads without holding the lock.
std::int64_t MirroredBlockReader::ReadFrom(std::size_t drive, std::size_t file, std::int64_t offset,
                                           std::span<std::byte> to,
                                           std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  State& state = drives_[drive];
  state.waiting += std::ssize(to);
  const std::int64_t waiting = state.waiting;
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  const std::int64_t n = state.drive.reader->Read(file, offset, to);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  lock.lock();
  state.waiting -= std::ssize(to);
  if (n > 0) {
    state.read += n;
    // The drive has also read the bytes that waited before.
    const double speed = static_cast<double>(waiting) / std::max(seconds, 1e-9);
    state.drive.bytes_per_second += kNewest * (speed - state.drive.bytes_per_second);
  } else if (n != -EINTR) {
    state.drive.bytes_per_second *= kAfterFailure;
  }
  state.drive.bytes_per_second = std::max(state.drive.bytes_per_second, kSlowest);
  return n;
}

std::int64_t MirroredBlockReader::Read(std::size_t file, std::int64_t offset,
                                       std::span<std::byte> to) {
  std::unique_lock lock(mutex_);
  const std::size_t chosen = ChooseDrive(std::ssize(to));
  const std::int64_t n = ReadFrom(chosen, file, offset, to, lock);
  if (n > 0 || n == -EINTR) return n;
  const std::size_t other = 1 - chosen;
  const std::int64_t helped = ReadFrom(other, file, offset, to, lock);
  if (helped > 0 && !std::exchange(has_warned_, true) && warn_) {
    const std::string problem =
        n == 0 ? "the file ends" : std::generic_category().message(static_cast<int>(-n));
    lock.unlock();
    warn_(fmt::format("{}, offset {}: {}; reading {} instead",
                      drives_[chosen].drive.reader->FileName(file), offset, problem,
                      drives_[other].drive.reader->FileName(file)));
  }
  return helped;
}

std::string MirroredBlockReader::FileName(std::size_t file) const {
  return fmt::format("{} and its mirror {}", drives_[0].drive.reader->FileName(file),
                     drives_[1].drive.reader->FileName(file));
}

Status MirroredBlockReader::CheckUnchanged(std::size_t file) {
  if (Status original = drives_[0].drive.reader->CheckUnchanged(file); !original) return original;
  return drives_[1].drive.reader->CheckUnchanged(file);
}

std::int64_t MirroredBlockReader::BytesFrom(std::size_t drive) const {
  const std::lock_guard lock(mutex_);
  return drives_[drive].read;
}

}  // namespace fathom::checkpoint
