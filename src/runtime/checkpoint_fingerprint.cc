#include "runtime/checkpoint_fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <system_error>

#include "base/file.h"
#include "kv_cache/block_key.h"

namespace fathom::runtime {
namespace {

constexpr std::size_t kPieces = 8;
constexpr std::size_t kPieceBytes = 4096;

Status AddFile(const std::filesystem::path& path, std::string& identity) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) {
    return MakeError(ErrorCode::kIo, "{}: cannot read its time of modification: {}", path.string(),
                     error.message());
  }
  identity +=
      fmt::format("file {} {}\n", path.filename().string(), time.time_since_epoch().count());
  return {};
}

// Adds the first and the last piece, and others at equal distances; all bytes of a small file.
void AddPieces(std::span<const std::byte> bytes, std::string& identity) {
  identity += fmt::format("{} bytes\n", bytes.size());
  const std::size_t last = bytes.size() - std::min(bytes.size(), kPieceBytes);
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::span<const std::byte> piece =
        bytes.subspan(last / (kPieces - 1) * i + (i + 1 == kPieces ? last % (kPieces - 1) : 0));
    identity.append(reinterpret_cast<const char*>(piece.data()),
                    std::min(piece.size(), kPieceBytes));
  }
}

Result<std::string> Fingerprint(const Checkpoint& checkpoint, bool with_files) {
  const Result<std::string> config =
      ReadFile(checkpoint.path() / "config.json", kMostSettingsBytes);
  if (!config) return Unexpected(config.error());
  std::string identity = *config;
  for (const Checkpoint::Tensor* tensor : checkpoint.TensorsByName()) {
    identity += fmt::format("{} {} {}\n", tensor->name, Name(tensor->view.dtype),
                            fmt::join(tensor->view.shape, ","));
  }
  for (const Checkpoint::Shard& shard :
       with_files ? checkpoint.shards() : std::span<const Checkpoint::Shard>()) {
    const Status added = AddFile(checkpoint.path() / shard.file, identity);
    if (!added) return Unexpected(added.error());
  }
  for (const std::span<const std::byte> file : checkpoint.Memory()) {
    AddPieces(file, identity);
  }
  const BlockKey key = HashBytes(std::as_bytes(std::span(identity)));
  return fmt::format("{:02x}", fmt::join(key.bytes, ""));
}

}  // namespace

Result<std::string> ComputeFingerprint(const Checkpoint& checkpoint) {
  return Fingerprint(checkpoint, true);
}

Result<std::string> ComputeContentFingerprint(const Checkpoint& checkpoint) {
  return Fingerprint(checkpoint, false);
}

}  // namespace fathom::runtime
