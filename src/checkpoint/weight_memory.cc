#include "checkpoint/weight_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "base/integer_math.h"
#include "base/pages.h"

namespace fathom {
namespace {

// What a thread asks the disk for at once, and reads then.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

struct Copy {
  std::span<const std::byte> from;
  std::byte* to = nullptr;  // null: only read
};

// Tells how far it is; any thread adds, the first one tells.
class Meter {
 public:
  Meter(std::int64_t total, const std::function<void(double)>& progress)
      : total_(static_cast<double>(total)), progress_(progress) {}

  void Add(std::size_t bytes, int worker) {
    const std::int64_t done =
        done_.fetch_add(static_cast<std::int64_t>(bytes)) + static_cast<std::int64_t>(bytes);
    if (worker == 0 && progress_) {
      progress_(static_cast<double>(done) / total_);
    }
  }

 private:
  const double total_;
  const std::function<void(double)>& progress_;
  std::atomic<std::int64_t> done_ = 0;
};

void AddPieces(const Copy& copy, std::vector<Copy>& pieces) {
  for (std::size_t i = 0; i < copy.from.size(); i += kPieceBytes) {
    pieces.push_back({copy.from.subspan(i, std::min(kPieceBytes, copy.from.size() - i)),
                      copy.to == nullptr ? nullptr : copy.to + i});
  }
}

void Run(std::span<const Copy> pieces, ThreadTeam& team, Meter& meter) {
  team.For(std::ssize(pieces), 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Copy& piece = pieces[static_cast<std::size_t>(i)];
      AdviseReadAhead(piece.from);
      if (piece.to == nullptr) {
        TouchPages(piece.from);
      } else {
        std::memcpy(piece.to, piece.from.data(), piece.from.size());
      }
      meter.Add(piece.from.size(), worker);
    }
  });
}

std::int64_t WeightBytes(const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    bytes += static_cast<std::int64_t>(tensor.view.bytes.size());
  }
  return bytes;
}

Status CheckMemory(const Checkpoint& checkpoint) {
  const std::int64_t needed = WeightBytes(checkpoint);
  const std::int64_t available = AvailableMemory().value_or(needed);
  constexpr double kGigabyte = 1e9;
  if (needed > available) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "{}: expected at least {:.1f} GB of available memory for all weights, found "
                     "{:.1f} GB",
                     checkpoint.path().string(), static_cast<double>(needed) / kGigabyte,
                     static_cast<double>(available) / kGigabyte);
  }
  return {};
}

}  // namespace

// Shard by shard, so that the pages of one file are free again before the next is read.
class WeightMover {
 public:
  WeightMover(Checkpoint& checkpoint, bool lock, ThreadTeam& team,
              const std::function<void(double)>& progress)
      : checkpoint_(checkpoint),
        lock_(lock),
        total_(WeightBytes(checkpoint)),
        team_(team),
        meter_(total_, progress) {}

  Status Move() {
    std::size_t first = 0;
    for (std::size_t shard = 0; shard < checkpoint_.files_.size(); ++shard) {
      std::size_t end = first;
      while (end < checkpoint_.tensors_.size() && checkpoint_.tensors_[end].shard == shard) {
        ++end;
      }
      if (Status moved = MoveTensors({checkpoint_.tensors_.data() + first, end - first}); !moved) {
        return moved;
      }
      checkpoint_.files_[shard] = MappedFile();
      first = end;
    }
    return {};
  }

 private:
  Status MoveTensors(std::span<Checkpoint::Tensor> tensors) {
    constexpr std::size_t kAlignment = 64;
    std::size_t size = 0;
    for (const Checkpoint::Tensor& tensor : tensors) {
      size += RoundUp(tensor.view.bytes.size(), kAlignment);
    }
    if (size == 0) {
      return {};
    }
    Result<PageMemory> memory = PageMemory::AllocateReserved(static_cast<std::int64_t>(size));
    if (!memory) {
      memory = PageMemory::Allocate(static_cast<std::int64_t>(size));
    }
    if (!memory) {
      return Unexpected(memory.error());
    }
    if (lock_) {
      if (Status locked = LockPages(memory->bytes(), total_, "the weights"); !locked) {
        return locked;
      }
    }
    std::vector<Copy> pieces;
    std::byte* to = memory->bytes().data();
    for (Checkpoint::Tensor& tensor : tensors) {
      AddPieces({tensor.view.bytes, to}, pieces);
      tensor.view.bytes = {to, tensor.view.bytes.size()};
      to += RoundUp(tensor.view.bytes.size(), kAlignment);
    }
    checkpoint_.copies_.push_back(*std::move(memory));
    Run(pieces, team_, meter_);
    return {};
  }

  Checkpoint& checkpoint_;
  const bool lock_;
  const std::int64_t total_;
  ThreadTeam& team_;
  Meter meter_;
};

namespace {

Status MoveToHugePages(Checkpoint& checkpoint, bool lock, ThreadTeam& team,
                       const std::function<void(double)>& progress,
                       std::vector<std::string>& warnings) {
  if (Status moved = WeightMover(checkpoint, lock, team, progress).Move(); !moved) {
    return MakeError(moved.error().code, "{}: weights in huge pages: {}",
                     checkpoint.path().string(), moved.error().message);
  }
  std::int64_t huge = 0;
  std::int64_t all = 0;
  for (const std::span<const std::byte> bytes : checkpoint.Memory()) {
    // A smaller piece cannot have any.
    if (std::ssize(bytes) >= kHugePageBytes) {
      huge += BytesInHugePages(bytes);
      all += std::ssize(bytes);
    }
  }
  if (huge < all / 2) {
    warnings.push_back(
        fmt::format("the kernel gave huge pages for {:.1f} of {:.1f} MB of weights (see "
                    "/sys/kernel/mm/transparent_hugepage/enabled: always or madvise is needed)",
                    static_cast<double>(huge) / 1e6, static_cast<double>(all) / 1e6));
  }
  return {};
}

void ReadAll(const Checkpoint& checkpoint, ThreadTeam& team,
             const std::function<void(double)>& progress) {
  std::vector<Copy> pieces;
  std::int64_t total = 0;
  for (const std::span<const std::byte> bytes : checkpoint.Memory()) {
    AddPieces({bytes, nullptr}, pieces);
    total += std::ssize(bytes);
  }
  Meter meter(total, progress);
  Run(pieces, team, meter);
}

Status LockAll(const Checkpoint& checkpoint) {
  std::int64_t total = 0;
  for (const std::span<const std::byte> bytes : checkpoint.Memory()) {
    total += std::ssize(bytes);
  }
  for (const std::span<const std::byte> bytes : checkpoint.Memory()) {
    if (Status locked = LockPages(bytes, total, "the weights"); !locked) {
      return locked;
    }
  }
  return {};
}

}  // namespace

Status HoldWeights(Checkpoint& checkpoint, const WeightMemory& memory, ThreadTeam& team,
                   const std::function<void(double)>& progress,
                   std::vector<std::string>& warnings) {
  if (!memory.Any()) {
    return {};
  }
  if (Status enough = CheckMemory(checkpoint); !enough) {
    return enough;
  }
  if (memory.huge_pages) {
    return MoveToHugePages(checkpoint, memory.lock, team, progress, warnings);
  }
  // Refused now rather than after everything has been read.
  if (memory.lock) {
    if (Status locked = LockAll(checkpoint); !locked) {
      return locked;
    }
  }
  ReadAll(checkpoint, team, progress);
  return {};
}

}  // namespace fathom
