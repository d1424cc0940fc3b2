#include "experts/streaming/calibration.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "base/pages.h"
#include "base/signal_mask.h"
#include "checkpoint/mirrored_block_reader.h"
#include "experts/streaming/read_queue.h"

namespace fathom::experts {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMargin = 0.95;
// How much faster buffered reads must be than direct reads. A processor copies each byte of a
// buffered read, which costs nothing while only the disk works, but slows down a running model.
constexpr double kBufferedGain = 1.1;

// True if reading the piece will wait for the disk. Dropping the pages of a piece is not
// guaranteed: pages that are mapped or being written stay, and so may large pages that also hold
// other bytes.
bool WillWaitForDisk(const FileBlockReader& reader, std::size_t file, std::int64_t offset,
                     std::int64_t bytes) {
  if (reader.IsDirect()) return true;
  reader.DropPages(file, offset, bytes);
  return !reader.MayHavePages(file, offset, bytes);
}

// Reads whole experts piece by piece until the deadline, except pieces that the page cache would
// serve.
void ReadExperts(FileBlockReader& reader, const ExpertFiles& files, std::span<std::byte> memory,
                 std::uint32_t seed, Clock::time_point deadline, std::atomic<std::int64_t>& total) {
  std::minstd_rand random(seed);
  while (Clock::now() < deadline) {
    for (const FileRange& range : files.Ranges(random() % files.n_keys())) {
      for (std::int64_t begin = 0; begin < range.bytes && Clock::now() < deadline;
           begin += kReadPieceBytes) {
        const std::int64_t bytes = std::min(kReadPieceBytes, range.bytes - begin);
        if (!WillWaitForDisk(reader, range.file, range.offset + begin, bytes)) continue;
        const std::int64_t n = reader.Read(range.file, range.offset + begin,
                                           memory.first(static_cast<std::size_t>(bytes)));
        if (n <= 0) return;
        total += n;
      }
    }
  }
}

Status Measure(FileBlockReader& reader, const ExpertFiles& files, std::span<std::byte> memory,
               double seconds, Calibration& way) {
  reader.SetDirect(way.direct);
  std::atomic<std::int64_t> total = 0;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const Status measured = Guarded([&]() -> Status {
    const SignalsBlocked blocked;
    std::vector<std::jthread> threads;
    for (int i = 0; i < way.n_threads; ++i) {
      threads.emplace_back([&, i] {
        ReadExperts(reader, files,
                    memory.subspan(static_cast<std::size_t>(i * kReadPieceBytes),
                                   static_cast<std::size_t>(kReadPieceBytes)),
                    static_cast<std::uint32_t>(100 * way.n_threads + i + 1), deadline, total);
      });
    }
    return {};
  });
  way.bytes_per_second =
      static_cast<double>(total) / std::chrono::duration<double>(Clock::now() - begin).count();
  return measured;
}

std::vector<Calibration> ListWays(const FileBlockReader& reader, const StreamingOptions& options) {
  std::vector<int> depths = {4, 8, 16, 32};
  if (options.n_read_threads > 0) depths = {options.n_read_threads};
  const bool may_be_direct = options.mode != ReadMode::kBuffered && reader.IsDirect();
  std::vector<Calibration> ways;
  for (const int depth : depths) {
    if (may_be_direct) ways.push_back({.direct = true, .n_threads = depth});
    // Buffered reads gain little from more threads.
    const bool is_usual = depth == 8 || depths.size() == 1;
    if (!may_be_direct || (options.mode == ReadMode::kMeasured && is_usual)) {
      ways.push_back({.direct = false, .n_threads = depth});
    }
  }
  return ways;
}

// Returns a sort key; the way with the least key is chosen: the fewest threads; among ways without
// a speed, direct and about 8 threads.
std::pair<bool, int> Preference(const Calibration& way, double best) {
  return {best <= 0 && !way.direct, best > 0 ? way.n_threads : std::abs(way.n_threads - 8)};
}

}  // namespace

Calibration ChooseReads(std::span<const Calibration> measured) {
  double best_direct = 0, best_buffered = 0;
  for (const Calibration& way : measured) {
    double& best = way.direct ? best_direct : best_buffered;
    best = std::max(best, way.bytes_per_second);
  }
  const bool direct = best_direct > 0 && best_buffered < kBufferedGain * best_direct;
  const double best = direct ? best_direct : best_buffered;
  const Calibration* chosen = nullptr;
  for (const Calibration& way : measured) {
    if (best > 0 && (way.direct != direct || way.bytes_per_second < kMargin * best)) continue;
    if (chosen == nullptr || Preference(way, best) < Preference(*chosen, best)) chosen = &way;
  }
  return *chosen;
}

Result<Calibration> CalibrateReads(FileBlockReader& reader, const ExpertFiles& files,
                                   const StreamingOptions& options) {
  std::vector<Calibration> ways = ListWays(reader, options);
  if (ways.size() == 1 || options.calibration_seconds <= 0) {
    return ChooseReads(ways);
  }
  int most_threads = 0;
  for (const Calibration& way : ways) most_threads = std::max(most_threads, way.n_threads);
  const Result<PageMemory> memory = PageMemory::Allocate(most_threads * kReadPieceBytes);
  if (!memory) return Unexpected(memory.error());
  for (Calibration& way : ways) {
    const double seconds = options.calibration_seconds / static_cast<double>(ways.size());
    if (Status measured = Measure(reader, files, memory->bytes(), seconds, way); !measured) {
      return Unexpected(measured.error());
    }
  }
  return ChooseReads(ways);
}

namespace {

// Measures opened files and sets their reader to the best way found.
Result<OpenedReader> Calibrate(Result<std::unique_ptr<FileBlockReader>> opened,
                               const ExpertFiles& files, const StreamingOptions& options) {
  if (!opened) return Unexpected(opened.error());
  Result<Calibration> found = CalibrateReads(**opened, files, options);
  if (!found) return Unexpected(found.error());
  (*opened)->SetDirect(found->direct);
  found->direct = (*opened)->IsDirect();
  return OpenedReader{*std::move(opened), *found};
}

Result<OpenedReader> OpenBoth(const Checkpoint& checkpoint, const ExpertFiles& files,
                              StreamingOptions options) {
  Result<std::unique_ptr<FileBlockReader>> mirror =
      FileBlockReader::OpenIn(options.mirror, checkpoint, options.warn);
  if (!mirror) {
    return MakeError(mirror.error().code, "--mirror: {}", mirror.error().message);
  }
  Result<std::unique_ptr<FileBlockReader>> original =
      FileBlockReader::Open(checkpoint, options.warn);
  if (!original) return Unexpected(original.error());
  if (Status same = CheckMirror(checkpoint, **original, **mirror); !same) {
    return MakeError(same.error().code, "--mirror: {}", same.error().message);
  }
  options.calibration_seconds /= 2;
  Result<OpenedReader> first = Calibrate(std::move(original), files, options);
  if (!first) return Unexpected(first.error());
  Result<OpenedReader> second = Calibrate(std::move(mirror), files, options);
  if (!second) return Unexpected(second.error());
  const Calibration a = first->found, b = second->found;
  return OpenedReader{
      .reader = std::make_unique<MirroredBlockReader>(
          MirroredBlockReader::Drive{std::move(first->reader), a.bytes_per_second},
          MirroredBlockReader::Drive{std::move(second->reader), b.bytes_per_second}, options.warn),
      .found = {.direct = a.direct && b.direct,
                .n_threads = a.n_threads + b.n_threads,
                .bytes_per_second = a.bytes_per_second + b.bytes_per_second}};
}

}  // namespace

Result<OpenedReader> OpenReader(const Checkpoint& checkpoint, const ExpertFiles& files,
                                const StreamingOptions& options) {
  if (options.open) {
    Result<std::unique_ptr<BlockReader>> reader = options.open(checkpoint);
    if (!reader) return Unexpected(reader.error());
    return OpenedReader{
        .reader = *std::move(reader),
        .found = {.direct = true, .n_threads = std::max(options.n_read_threads, 1)}};
  }
  if (!options.mirror.empty()) return OpenBoth(checkpoint, files, options);
  return Calibrate(FileBlockReader::Open(checkpoint, options.warn), files, options);
}

}  // namespace fathom::experts
