#include "experts/streaming/open_reader.h"

#include <algorithm>
#include <utility>

#include "checkpoint/file_block_reader.h"
#include "checkpoint/mirrored_block_reader.h"

namespace fathom {
namespace {

struct OpenedFiles {
  std::unique_ptr<FileBlockReader> reader;
  Calibration found;
};

// Measures opened files and sets their reader to the best way found.
Result<OpenedFiles> Calibrate(Result<std::unique_ptr<FileBlockReader>> opened,
                              const ExpertFiles& files, const StreamingOptions& options) {
  if (!opened) return Unexpected(opened.error());
  Result<Calibration> found = CalibrateReads(**opened, files, options);
  if (!found) return Unexpected(found.error());
  (*opened)->SetDirect(found->direct);
  found->direct = (*opened)->IsDirect();
  return OpenedFiles{*std::move(opened), *found};
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
  Result<OpenedFiles> first = Calibrate(std::move(original), files, options);
  if (!first) return Unexpected(first.error());
  Result<OpenedFiles> second = Calibrate(std::move(mirror), files, options);
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
  Result<OpenedFiles> opened =
      Calibrate(FileBlockReader::Open(checkpoint, options.warn), files, options);
  if (!opened) return Unexpected(opened.error());
  return OpenedReader{.reader = std::move(opened->reader), .found = opened->found};
}

}  // namespace fathom
