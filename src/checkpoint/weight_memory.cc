#include "checkpoint/weight_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/integer_math.h"

namespace fathom::checkpoint {
namespace {

// Bytes that a thread requests from the disk in one call, and then reads.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

struct Copy {
  std::span<const std::byte> from;
  std::byte* to = nullptr;  // null: only read
};

// Reports the progress. Any thread adds bytes; only the first thread reports.
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
        ReleasePages(piece.from);
      }
      meter.Add(piece.from.size(), worker);
    }
  });
}

std::int64_t TotalBytes(const MemoryPieces& memory) {
  std::int64_t total = 0;
  for (const std::span<const std::byte> bytes : memory) {
    total += std::ssize(bytes);
  }
  return total;
}

void WarnIfSmallPages(std::span<const std::byte> bytes, std::vector<std::string>& warnings) {
  // Fewer bytes than a huge page cannot be in one.
  const std::int64_t all = std::ssize(bytes);
  const std::int64_t huge = all < kHugePageBytes ? all : BytesInHugePages(bytes);
  if (huge < all / 2) {
    warnings.push_back(
        fmt::format("the kernel gave huge pages for {:.1f} of {:.1f} MB of weights (see "
                    "/sys/kernel/mm/transparent_hugepage/enabled: always or madvise is needed)",
                    static_cast<double>(huge) / 1e6, static_cast<double>(all) / 1e6));
  }
}

Result<PageMemory> AllocateHugePages(std::int64_t bytes) {
  Result<PageMemory> reserved = PageMemory::AllocateReserved(bytes);
  return reserved ? std::move(reserved) : PageMemory::Allocate(bytes);
}

Result<PageMemory> MoveToHugePages(MemoryPieces& pieces, bool lock, ThreadTeam& team,
                                   const std::function<void(double)>& progress,
                                   std::vector<std::string>& warnings) {
  constexpr std::size_t kAlignment = 64;
  std::size_t size = 0;
  for (const std::span<const std::byte> piece : pieces) {
    size += RoundUp(piece.size(), kAlignment);
  }
  Result<PageMemory> memory = AllocateHugePages(static_cast<std::int64_t>(size));
  if (!memory) {
    return MakeError(memory.error().code, "weights in huge pages: {}", memory.error().message);
  }
  if (lock) {
    if (Status locked = LockPages(memory->bytes(), std::ssize(memory->bytes()), "the weights");
        !locked) {
      return Unexpected(locked.error());
    }
  }
  Meter meter(TotalBytes(pieces), progress);
  std::vector<Copy> copies;
  std::byte* to = memory->bytes().data();
  for (std::span<const std::byte>& piece : pieces) {
    AddPieces({piece, to}, copies);
    piece = {to, piece.size()};
    to += RoundUp(piece.size(), kAlignment);
  }
  // Reads files from front to back, independently of the order of the pieces.
  std::ranges::sort(copies, {}, [](const Copy& copy) { return copy.from.data(); });
  Run(copies, team, meter);
  WarnIfSmallPages(memory->bytes(), warnings);
  return memory;
}

// Locks before reading, so that a refusal comes early.
Status LockAndRead(const MemoryPieces& pieces, bool lock, ThreadTeam& team,
                   const std::function<void(double)>& progress) {
  const std::int64_t total = TotalBytes(pieces);
  std::vector<Copy> reads;
  for (const std::span<const std::byte> bytes : pieces) {
    if (Status locked = lock ? LockPages(bytes, total, "the weights") : Status(); !locked) {
      return locked;
    }
    AddPieces({bytes, nullptr}, reads);
  }
  Meter meter(total, progress);
  Run(reads, team, meter);
  return {};
}

// Returns the parts of the files outside all pieces.
MemoryPieces FindUnusedParts(const Checkpoint& checkpoint, MemoryPieces pieces) {
  const auto begin_of = [](const auto& piece) { return piece.data(); };
  std::ranges::sort(pieces, {}, begin_of);
  MemoryPieces rest;
  for (const std::span<const std::byte> file : checkpoint.Memory()) {
    const std::byte* const end = file.data() + file.size();
    const std::byte* next = file.data();
    auto piece = std::ranges::lower_bound(pieces, next, {}, begin_of);
    for (; piece != pieces.end() && begin_of(*piece) < end; ++piece) {
      rest.emplace_back(next, std::max(next, begin_of(*piece)));
      next = std::max(next, begin_of(*piece) + piece->size());
    }
    rest.emplace_back(next, end);
  }
  return rest;
}

}  // namespace

void UnmapUnusedPages(const Checkpoint& checkpoint, MemoryPieces pieces, std::size_t most) {
  MemoryPieces rest = FindUnusedParts(checkpoint, std::move(pieces));
  std::ranges::sort(rest, std::ranges::greater(), [](const auto& bytes) { return bytes.size(); });
  for (std::size_t i = 0; i < rest.size(); ++i) {
    i < most ? SetPagesApart(rest[i]) : ReleasePages(rest[i]);
  }
}

Status CheckRoom(const Checkpoint& checkpoint, const MemoryPieces& pieces,
                 const WeightMemory& memory) {
  const std::int64_t needed = memory.Any() ? TotalBytes(pieces) : 0;
  const std::int64_t available = AvailableMemory().value_or(needed);
  constexpr double kGigabyte = 1e9;
  if (needed > available) {
    return MakeError(ErrorCode::kOutOfMemory,
                     "{}: expected at least {:.1f} GB of available memory for the weights, found "
                     "{:.1f} GB",
                     checkpoint.path().string(), static_cast<double>(needed) / kGigabyte,
                     static_cast<double>(available) / kGigabyte);
  }
  return {};
}

Result<PageMemory> HoldWeights(MemoryPieces& pieces, const WeightMemory& memory, ThreadTeam& team,
                               const std::function<void(double)>& progress,
                               std::vector<std::string>& warnings) {
  std::erase_if(pieces, [](std::span<const std::byte> piece) { return piece.empty(); });
  if (!memory.Any() || pieces.empty()) return PageMemory();
  if (memory.huge_pages) return MoveToHugePages(pieces, memory.lock, team, progress, warnings);
  const Status held = LockAndRead(pieces, memory.lock, team, progress);
  return held ? Result<PageMemory>() : Unexpected(held.error());
}

}  // namespace fathom::checkpoint
