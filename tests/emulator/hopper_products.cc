// Hopper: products of warpgroups.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulator/hopper.h"

namespace fathom::kernels::emulator {
namespace {

constexpr int kTileRows = 64;
constexpr int kTileDepth = 16;  // numbers of K per instruction: 32 bytes of f16 or bf16

// A tile of 16-bit numbers in shared memory, as a descriptor of wgmma gives it: rows of K side by
// side, in groups of 8.
struct SharedTile {
  explicit SharedTile(std::uint64_t descriptor)
      : start(static_cast<std::int64_t>(descriptor & 0x3FFF) << 4),
        leading(static_cast<std::int64_t>(descriptor >> 16 & 0x3FFF) << 4),
        stride(static_cast<std::int64_t>(descriptor >> 32 & 0x3FFF) << 4),
        base_offset(static_cast<int>(descriptor >> 49 & 7)),
        swizzle(static_cast<int>(descriptor >> 62)) {}

  // Only 128-byte swizzle and no swizzle, with tiles at the pattern's beginning, are implemented
  // here.
  bool IsKnown() const { return base_offset == 0 && swizzle <= 1; }
  // Returns the offset of number k of a row.
  std::int64_t Address(int row, int k) const {
    if (swizzle == 1) {
      const std::int64_t plain = start + row / 8 * stride + row % 8 * 128 + 2 * k;
      return plain ^ (plain >> 3 & 0x70);
    }
    return start + row / 8 * stride + k / 8 * leading + row % 8 * 16 + 2 * (k % 8);
  }

  std::int64_t start;    // address
  std::int64_t leading;  // bytes between groups of 8 columns, where nothing is swizzled
  std::int64_t stride;   // bytes between groups of 8 rows
  int base_offset;
  int swizzle;
};

// Return the row and column of number i of a thread's sums, or of its pairs of A.
int FragmentRow(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
int FragmentColumn(int thread, int i) { return thread % 4 * 2 + i / 4 * 8 + i % 2; }

}  // namespace

Hopper::Warpgroup& Hopper::FindWarpgroup(const Block& block) {
  return warpgroups_[Index(block) / kWarpgroup];
}

void Hopper::Touch(Block& block, AsyncRegisters& registers) {
  if (registers.n_pending > 0) {
    block.Fail(fmt::format("thread {} uses registers of an unfinished product of its warpgroup",
                           block.thread()));
  }
  registers.touched = FindThread(block).wgmma_fences;
}

void Hopper::WgmmaFence(Block& block) { ++FindThread(block).wgmma_fences; }

void Hopper::Multiply(Block& block, WarpgroupProduct& product, const MeetingPoint& point) {
  const Thread& thread = FindThread(block);
  for (const AsyncRegisters* registers : {product.accumulator, product.a}) {
    if (registers != nullptr && registers->touched >= thread.wgmma_fences) {
      block.Fail(
          fmt::format("thread {} begins a product of its warpgroup without a WgmmaFence behind "
                      "the last use of its registers",
                      block.thread()));
    }
  }
  block.Meet(kWarpgroup, &product, &MultiplyAll, point);
}

void Hopper::MultiplyAll(std::span<void* const> calls) {
  Block& block = Block::Running();
  block.hopper().BeginProduct(block, calls);
}

void Hopper::BeginProduct(Block& block, std::span<void* const> calls) {
  Warpgroup& warpgroup = FindWarpgroup(block);
  Product& product = warpgroup.products.emplace_back();
  product.rank = block.rank();
  const std::size_t first = Index(block) / kWarpgroup * kWarpgroup;
  common_ = threads_[first].clock;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    product.threads.push_back(*static_cast<const WarpgroupProduct*>(calls[i]));
    common_.Meet(threads_[first + i].clock);
  }
  const WarpgroupProduct& one = product.threads.front();
  const auto add_tile = [&](std::uint64_t descriptor, int rows) {
    const SharedTile tile(descriptor);
    if (!tile.IsKnown()) {
      block.Fail(
          fmt::format("a product of a warpgroup: expected a descriptor without base offset, "
                      "with 128-byte swizzle or none, found {:#x}",
                      descriptor));
    }
    Window& window = windows_[static_cast<std::size_t>(product.rank)];
    for (int row = 0; row < rows; ++row) {
      for (int byte = 0; byte < 2 * kTileDepth; ++byte) {
        const std::int64_t at = tile.Address(row, byte / 2) + byte % 2 - kFirstAddress;
        if (at < 0 || at >= static_cast<std::int64_t>(window.data.size())) {
          block.Fail(
              fmt::format("a product of a warpgroup reads byte {} of shared memory, which has "
                          "{}",
                          at, window.data.size()));
        }
        const Byte& read = window.bytes[static_cast<std::size_t>(at)];
        if (read.writer == Byte::Writer::kNobody) {
          block.Fail(
              fmt::format("a product of a warpgroup reads byte {} of shared memory, which "
                          "nobody has written",
                          at));
        }
        CheckWritten(block, read, common_, /*runs_beside=*/true, "begins a product that reads",
                     static_cast<std::size_t>(at));
        product.reads.push_back(static_cast<std::size_t>(at));
      }
    }
  };
  for (const WarpgroupProduct& thread : product.threads) {
    if (thread.b_tile != one.b_tile || thread.a_tile != one.a_tile || thread.adds != one.adds) {
      block.Fail("a product of a warpgroup: expected one descriptor of all threads, found several");
    }
  }
  if (one.a == nullptr) {
    add_tile(one.a_tile, kTileRows);
  }
  add_tile(one.b_tile, one.n);
  for (const std::size_t at : product.reads) {
    ++windows_[static_cast<std::size_t>(product.rank)].bytes[at].n_reading;
  }
  for (const WarpgroupProduct& thread : product.threads) {
    ++thread.accumulator->n_pending;
    if (thread.a != nullptr) ++thread.a->n_pending;
  }
  if (running_.asynchrony == Asynchrony::kEarliest) {
    Compute(product);
  }
  ++warpgroup.n_uncommitted;
}

void Hopper::Compute(Product& product) {
  const WarpgroupProduct& one = product.threads.front();
  const Window& window = windows_[static_cast<std::size_t>(product.rank)];
  std::vector<MatrixNumber> a(kTileRows * kTileDepth);
  std::vector<MatrixNumber> b(static_cast<std::size_t>(one.n * kTileDepth));
  const auto load = [&](std::uint64_t descriptor, std::vector<MatrixNumber>& numbers) {
    const SharedTile tile(descriptor);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t at =
          tile.Address(static_cast<int>(i) / kTileDepth, static_cast<int>(i) % kTileDepth) -
          kFirstAddress;
      std::uint16_t bits;
      std::memcpy(&bits, window.data.data() + at, sizeof(bits));
      numbers[i] = ToMatrixNumber(one.format, bits);
    }
  };
  load(one.b_tile, b);
  if (one.a == nullptr) {
    load(one.a_tile, a);
  } else {
    for (int thread = 0; thread < kWarpgroup; ++thread) {
      for (int i = 0; i < 8; ++i) {
        const std::uint32_t pair =
            product.threads[static_cast<std::size_t>(thread)].a_registers[i / 2];
        const int at = FragmentRow(thread, i) * kTileDepth + FragmentColumn(thread, i);
        a[static_cast<std::size_t>(at)] = ToMatrixNumber(one.format, pair >> (i % 2 * 16) & 0xFFFF);
      }
    }
  }
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    const WarpgroupProduct& mine = product.threads[static_cast<std::size_t>(thread)];
    for (int i = 0; i < one.n / 2; ++i) {
      const auto row = static_cast<std::size_t>(FragmentRow(thread, i) * kTileDepth);
      const auto column = static_cast<std::size_t>(FragmentColumn(thread, i) * kTileDepth);
      mine.sums[i] =
          MultiplyAdd(kSm90Mma, std::span(a).subspan(row, kTileDepth),
                      std::span(b).subspan(column, kTileDepth), mine.adds ? mine.sums[i] : 0.0f);
    }
  }
}

void Hopper::FinishProduct(Warpgroup& warpgroup) {
  Product& product = warpgroup.products.front();
  if (running_.asynchrony == Asynchrony::kLatest) {
    Compute(product);
  }
  for (const std::size_t at : product.reads) {
    --windows_[static_cast<std::size_t>(product.rank)].bytes[at].n_reading;
  }
  for (const WarpgroupProduct& thread : product.threads) {
    --thread.accumulator->n_pending;
    if (thread.a != nullptr) --thread.a->n_pending;
  }
  warpgroup.products.pop_front();
}

void Hopper::CommitProducts(Block& block, const MeetingPoint& point) {
  block.Meet(
      kWarpgroup, nullptr,
      [](std::span<void* const>) {
        Block& last = Block::Running();
        Warpgroup& warpgroup = last.hopper().FindWarpgroup(last);
        warpgroup.groups.push_back(std::exchange(warpgroup.n_uncommitted, 0));
      },
      point);
}

void Hopper::WaitProducts(Block& block, int n_pending, const MeetingPoint& point) {
  block.Meet(
      kWarpgroup, &n_pending,
      [](std::span<void* const> calls) {
        Block& last = Block::Running();
        Hopper& hopper = last.hopper();
        Warpgroup& warpgroup = hopper.FindWarpgroup(last);
        const auto allowed = static_cast<std::size_t>(*static_cast<const int*>(calls.front()));
        while (warpgroup.groups.size() > allowed) {
          for (int i = 0; i < warpgroup.groups.front(); ++i) {
            hopper.FinishProduct(warpgroup);
          }
          warpgroup.groups.pop_front();
        }
      },
      point);
}

void Hopper::SetRegisters(Block& block, int count, bool more, const MeetingPoint& point) {
  Warpgroup& warpgroup = FindWarpgroup(block);
  const bool fits = more ? count >= warpgroup.registers : count <= warpgroup.registers;
  if (count % 8 != 0 || count < 24 || count > 256 || !fits) {
    block.Fail(
        fmt::format("thread {} calls {}: expected 24 to 256 registers, a multiple of 8, {} than "
                    "the {} of its warpgroup, found {}",
                    block.thread(), point.operation, more ? "not fewer" : "not more",
                    warpgroup.registers, count));
  }
  block.Meet(
      kWarpgroup, nullptr, [](std::span<void* const>) {}, point);
  const std::size_t n = static_cast<std::size_t>(running_.grid.threads) / kWarpgroup;
  const std::size_t first = static_cast<std::size_t>(block.rank()) * n;
  block.WaitUntil(
      [&] {
        int others = 0;
        for (std::size_t i = first; i < first + n; ++i) {
          others += &warpgroups_[i] == &warpgroup ? 0 : warpgroups_[i].registers;
        }
        return (others + count) * kWarpgroup <= kRegistersOfBlock;
      },
      point);
  block.Meet(
      kWarpgroup, nullptr, [](std::span<void* const>) {}, point);
  warpgroup.registers = count;
}

}  // namespace fathom::kernels::emulator
