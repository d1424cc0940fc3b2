// Hopper: barriers that count bytes, and the copies that they count.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {
namespace {

constexpr std::int64_t kPieceBytes = 16;
constexpr std::int64_t kBarrierBytes = 8;
constexpr std::int64_t kMostBytes = (1 << 20) - 1;  // the most that a barrier can expect

}  // namespace

void Hopper::InitBarrier(Block& block, std::uint32_t address, int count) {
  const Place place = Find(block, address, kBarrierBytes, "makes a barrier of");
  if (place.offset % kBarrierBytes != 0 || place.rank != block.rank() || count < 1) {
    block.Fail(
        fmt::format("thread {} makes a barrier at byte {}: expected 8 bytes of its block and "
                    "at least one arrival, found {} arrivals",
                    block.thread(), place.offset, count));
  }
  const std::size_t self = Index(block);
  const Clock& clock = threads_[self].clock;
  for (std::int64_t i = 0; i < kBarrierBytes; ++i) {
    Byte& byte = place.window->bytes[place.offset + static_cast<std::size_t>(i)];
    CheckWritable(block, byte, clock, /*runs_beside=*/false, "makes a barrier of", place.offset);
    byte.writer = Byte::Writer::kBarrier;
  }
  Barrier barrier;
  barrier.count = barrier.pending = count;
  barrier.component = threads_.size() + barriers_.size();
  barrier.owner = self;
  barrier.owner_count = clock.Seen(self);
  barriers_[address] = std::move(barrier);
  threads_[self].inits_unfenced = true;
}

void Hopper::FenceBarrierInit(Block& block) { FindThread(block).inits_unfenced = false; }

Hopper::Barrier& Hopper::FindBarrier(Block& block, std::uint32_t address, std::string_view what) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end()) {
    block.Fail(fmt::format("thread {} {} a barrier at byte {}, where there is none", block.thread(),
                           what, std::int64_t{address & 0xFFFFFF} - kFirstAddress));
  }
  Barrier& barrier = found->second;
  if (FindThread(block).clock.Seen(barrier.owner) < barrier.owner_count) {
    block.Fail(
        fmt::format("thread {} {} a barrier that another thread has made, without a meeting "
                    "between them",
                    block.thread(), what));
  }
  if (threads_[barrier.owner].inits_unfenced && barrier.owner != Index(block)) {
    block.Fail(fmt::format("thread {} {} a barrier that was made without a FenceBarrierInit",
                           block.thread(), what));
  }
  return barrier;
}

std::string_view Hopper::EndPhase(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return {};
  if (!barrier.awaited) {
    return "its phase ends before anybody has waited for the last one: too many arrivals, or a "
           "wait "
           "is missing";
  }
  ++barrier.phase;
  barrier.awaited = false;
  barrier.pending = barrier.count;
  barrier.ended = std::exchange(barrier.arrived, Clock());
  barrier.ended.See(barrier.component, barrier.phase);
  return {};
}

void Hopper::Arrive(Block& block, std::uint32_t address, std::int64_t bytes) {
  Barrier& barrier = FindBarrier(block, address, "arrives at");
  if (barrier.pending == 0) {
    block.Fail(
        fmt::format("thread {} arrives at a barrier: expected {} arrivals in a phase, found "
                    "one more",
                    block.thread(), barrier.count));
  }
  barrier.bytes += bytes;
  if (bytes < 0 || barrier.bytes > kMostBytes) {
    block.Fail(fmt::format("thread {} arrives at a barrier: expected at most {} bytes, found {}",
                           block.thread(), kMostBytes, barrier.bytes));
  }
  barrier.arrived.Join(FindThread(block).clock);
  Tick(Index(block));
  --barrier.pending;
  if (const std::string_view wrong = EndPhase(barrier); !wrong.empty()) {
    block.Fail(fmt::format("thread {} arrives at a barrier: {}", block.thread(), wrong));
  }
}

void Hopper::WaitBarrier(Block& block, std::uint32_t address, int parity,
                         const MeetingPoint& point) {
  Barrier& barrier = FindBarrier(block, address, "waits for");
  block.WaitUntil([&] { return (barrier.phase & 1) != static_cast<std::uint32_t>(parity); }, point);
  barrier.awaited = true;
  FindThread(block).clock.Join(barrier.ended);
}

void Hopper::CopyBytes(Block& block, std::uint32_t to, const void* from, std::int64_t bytes,
                       std::uint32_t barrier) {
  const Place place = Find(block, to, bytes, "copies to");
  if (bytes <= 0 || bytes % kPieceBytes != 0 || place.offset % kPieceBytes != 0 ||
      std::bit_cast<std::uintptr_t>(from) % kPieceBytes != 0) {
    block.Fail(fmt::format("thread {} copies {} bytes from {} to byte {}: expected multiples of 16",
                           block.thread(), bytes, from, place.offset));
  }
  Copy& copy = copies_.emplace_back(Copy{place.rank, barrier, {}});
  for (std::int64_t i = 0; i < bytes; i += kPieceBytes) {
    copy.pieces.push_back({place.offset + static_cast<std::size_t>(i),
                           static_cast<const std::byte*>(from) + i, 0, kPieceBytes});
  }
  BeginCopy(block, "copies to");
}

void Hopper::CopyTile(Block& block, std::uint32_t to, const TensorMap& map, std::int64_t column,
                      std::int64_t row, std::uint32_t barrier) {
  const auto tile = std::bit_cast<TensorTile>(map);
  const std::int64_t line = tile.tile_columns * tile.element_bytes;
  const Place place = Find(block, to, tile.tile_rows * line, "copies a tile to");
  const std::int64_t alignment = tile.swizzled != 0 ? 1024 : 128;
  const auto address = static_cast<std::int64_t>(place.offset) + kFirstAddress;
  if (line % kPieceBytes != 0 || (tile.swizzled != 0 && line > 128) || tile.tile_rows > 256 ||
      tile.row_bytes % kPieceBytes != 0 || address % alignment != 0) {
    block.Fail(
        fmt::format("thread {} copies a tile of {} rows of {} bytes to byte {}: expected "
                    "multiples of 16 bytes, at most 128 if swizzled and 256 rows, and a place "
                    "aligned to {}",
                    block.thread(), tile.tile_rows, line, place.offset, alignment));
  }
  Copy& copy = copies_.emplace_back(Copy{place.rank, barrier, {}});
  for (std::int64_t r = 0; r < tile.tile_rows; ++r) {
    for (std::int64_t c = 0; c < line; c += kPieceBytes) {
      const std::int64_t plain = address + r * line + c;
      const std::int64_t at = tile.swizzled != 0 ? plain ^ (plain >> 3 & 0x70) : plain;
      Piece piece = {.to = static_cast<std::size_t>(at - kFirstAddress)};
      // The part of this piece that is in the row.
      const std::int64_t start = column * tile.element_bytes + c;
      const std::int64_t begin = std::max<std::int64_t>(-start, 0);
      const std::int64_t end = std::min(tile.columns * tile.element_bytes - start, kPieceBytes);
      if (row + r >= 0 && row + r < tile.rows && begin < end) {
        piece.from = tile.data + (row + r) * tile.row_bytes + start + begin;
        piece.n_zeros = static_cast<std::size_t>(begin);
        piece.n_bytes = static_cast<std::size_t>(end - begin);
      }
      copy.pieces.push_back(piece);
    }
  }
  BeginCopy(block, "copies a tile to");
}

void Hopper::BeginCopy(Block& block, std::string_view operation) {
  const Copy& copy = copies_.back();
  const Barrier& barrier = FindBarrier(block, copy.barrier, operation);
  if (threads_[barrier.owner].inits_unfenced) {
    block.Fail(
        fmt::format("thread {} copies with a barrier that was made without a FenceBarrierInit",
                    block.thread()));
  }
  const Clock& clock = FindThread(block).clock;
  Window& window = windows_[static_cast<std::size_t>(copy.rank)];
  for (const Piece& piece : copy.pieces) {
    for (std::size_t i = piece.to; i < piece.to + kPieceBytes; ++i) {
      CheckWritable(block, window.bytes[i], clock, /*runs_beside=*/true, operation, i);
      window.bytes[i].writer = Byte::Writer::kUnfinishedCopy;
      window.data[i] = std::byte{0xFF};
    }
  }
  // While earlier kernels run, the earliest moment is the worst one to read their results.
  if (running_.asynchrony == Asynchrony::kEarliest || running_.earlier_kernels_run) {
    FinishOneCopy();
  }
}

void Hopper::Finish(const Copy& copy) {
  Barrier& barrier = barriers_.at(copy.barrier);
  Window& window = windows_[static_cast<std::size_t>(copy.rank)];
  for (const Piece& piece : copy.pieces) {
    std::byte* const to = window.data.data() + piece.to;
    std::memset(to, 0, kPieceBytes);
    if (piece.n_bytes > 0) {
      std::memcpy(to + piece.n_zeros, piece.from, piece.n_bytes);
    }
    for (std::size_t i = piece.to; i < piece.to + kPieceBytes; ++i) {
      window.bytes[i].writer = Byte::Writer::kCopy;
      window.bytes[i].component = static_cast<std::uint32_t>(barrier.component);
      window.bytes[i].count = barrier.phase + 1;
    }
  }
  barrier.bytes -= static_cast<std::int64_t>(copy.pieces.size()) * kPieceBytes;
  if (const std::string_view wrong = EndPhase(barrier); !wrong.empty()) {
    SetError(fmt::format("a copy ends: {}", wrong));
  }
}

bool Hopper::FinishOneCopy() {
  if (copies_.empty()) return false;
  const Copy copy = std::move(copies_.back());
  copies_.pop_back();
  Finish(copy);
  return true;
}

}  // namespace fathom::kernels::emulator
