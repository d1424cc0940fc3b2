#include "experts/streaming/heat_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/file.h"
#include "kv_cache/block_key.h"

namespace fathom::experts {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kMostHeatBytes = std::size_t{16} << 20;
constexpr std::uint32_t kHeatVersion = 1;

struct HeatHeader {
  std::array<char, 8> magic = {'F', 'A', 'T', 'H', 'H', 'E', 'A', 'T'};
  std::array<char, 32> fingerprint = {};
  std::uint32_t version = kHeatVersion;
  std::uint32_t n_blocks = 0;
  std::uint32_t n_experts = 0;
};
static_assert(sizeof(HeatHeader) == 52);

HeatHeader MakeHeader(std::string_view fingerprint, std::int64_t n_experts, std::size_t n_uses) {
  HeatHeader header;
  Check(fingerprint.size() == header.fingerprint.size(), "a fingerprint of 32 characters");
  fingerprint.copy(header.fingerprint.data(), fingerprint.size());
  header.n_experts = static_cast<std::uint32_t>(n_experts);
  header.n_blocks = static_cast<std::uint32_t>(n_uses) / header.n_experts;
  return header;
}

std::string HashText(std::string_view text) {
  const BlockKey key = HashBytes(std::as_bytes(std::span(text)));
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

}  // namespace

Status WriteHeat(const std::filesystem::path& path, std::string_view fingerprint,
                 std::int64_t n_experts, std::span<const std::uint32_t> uses) {
  const HeatHeader header = MakeHeader(fingerprint, n_experts, uses.size());
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  text.append(reinterpret_cast<const char*>(uses.data()), uses.size_bytes());
  text += HashText(text);
  return WriteFile(path, text);
}

Result<std::vector<std::uint32_t>> ReadHeat(const std::filesystem::path& path,
                                            std::string_view fingerprint, std::int64_t n_experts) {
  const Result<std::string> text = ReadFile(path, kMostHeatBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::vector<std::uint32_t>();
  if (!text) return Unexpected(text.error());
  constexpr std::size_t kAround = sizeof(HeatHeader) + sizeof(BlockKey);
  const std::string_view whole = *text;
  if (whole.size() < kAround || whole.size() % sizeof(std::uint32_t) != 0 ||
      whole.substr(whole.size() - sizeof(BlockKey)) !=
          HashText(whole.substr(0, whole.size() - sizeof(BlockKey)))) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected uses of experts and their hash, found a damaged file of {} "
                     "bytes",
                     path.string(), whole.size());
  }
  std::vector<std::uint32_t> uses((whole.size() - kAround) / sizeof(std::uint32_t));
  const HeatHeader expected = MakeHeader(fingerprint, n_experts, uses.size());
  if (std::memcmp(whole.data(), &expected, sizeof(expected)) != 0) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected uses of {} experts in each block of checkpoint {}, found those "
                     "of another checkpoint",
                     path.string(), n_experts, fingerprint);
  }
  if (!uses.empty()) {
    std::memcpy(uses.data(), whole.data() + sizeof(expected), uses.size() * sizeof(std::uint32_t));
  }
  return uses;
}

}  // namespace fathom::experts
