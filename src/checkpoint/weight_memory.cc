#include "checkpoint/weight_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
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

Status CheckMemory(std::string_view where, std::string_view what, std::int64_t needed) {
  const std::int64_t available = AvailableMemory().value_or(needed);
  constexpr double kGigabyte = 1e9;
  if (needed > available) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "{}expected at least {:.1f} GB of available memory for {}, found {:.1f} GB",
                     where, static_cast<double>(needed) / kGigabyte, what,
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

std::int64_t BytesOf(const MemoryPieces& memory) {
  std::int64_t total = 0;
  for (const std::span<const std::byte> bytes : memory) {
    total += std::ssize(bytes);
  }
  return total;
}

void ReadAll(const MemoryPieces& memory, ThreadTeam& team,
             const std::function<void(double)>& progress) {
  std::vector<Copy> pieces;
  for (const std::span<const std::byte> bytes : memory) {
    AddPieces({bytes, nullptr}, pieces);
  }
  Meter meter(BytesOf(memory), progress);
  Run(pieces, team, meter);
}

// What is to stay is refused now rather than after everything has been read.
Status LockAndRead(const MemoryPieces& pieces, bool lock, ThreadTeam& team,
                   const std::function<void(double)>& progress) {
  const std::int64_t total = BytesOf(pieces);
  for (const std::span<const std::byte> bytes : pieces) {
    if (Status locked = lock ? LockPages(bytes, total, "the weights") : Status(); !locked) {
      return locked;
    }
  }
  ReadAll(pieces, team, progress);
  return {};
}

// What of `whole` is in none of the pieces.
void SetApart(const MemoryPieces& whole, MemoryPieces pieces) {
  std::erase_if(pieces, [](std::span<const std::byte> piece) { return piece.empty(); });
  const auto begin_of = [](const auto& piece) { return piece.data(); };
  std::ranges::sort(pieces, {}, begin_of);
  for (const std::span<const std::byte> memory : whole) {
    const std::byte* const end = memory.data() + memory.size();
    const std::byte* next = memory.data();
    auto piece = std::ranges::lower_bound(pieces, next, {}, begin_of);
    for (; piece != pieces.end() && begin_of(*piece) < end; ++piece) {
      SetPagesApart({next, std::max(next, begin_of(*piece))});
      next = std::max(next, begin_of(*piece) + piece->size());
    }
    SetPagesApart({next, end});
  }
}

}  // namespace

Status HoldWeights(Checkpoint& checkpoint, const WeightMemory& memory, ThreadTeam& team,
                   const std::function<void(double)>& progress,
                   std::vector<std::string>& warnings) {
  if (!memory.Any()) {
    return {};
  }
  if (Status enough =
          CheckMemory(checkpoint.path().string() + ": ", "all weights", WeightBytes(checkpoint));
      !enough) {
    return enough;
  }
  if (memory.huge_pages) {
    return MoveToHugePages(checkpoint, memory.lock, team, progress, warnings);
  }
  return LockAndRead(checkpoint.Memory(), memory.lock, team, progress);
}

Status HoldPieces(const Checkpoint& checkpoint, const MemoryPieces& pieces,
                  const WeightMemory& memory, ThreadTeam& team,
                  const std::function<void(double)>& progress) {
  Check(!memory.huge_pages, "pieces of weights stay where they are");
  SetApart(checkpoint.Memory(), pieces);
  if (!memory.Any()) {
    return {};
  }
  if (Status enough = CheckMemory("", "the weights of this rank", BytesOf(pieces)); !enough) {
    return enough;
  }
  return LockAndRead(pieces, memory.lock, team, progress);
}

}  // namespace fathom
