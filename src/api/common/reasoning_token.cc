#include "api/common/reasoning_token.h"

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace fathom::api {
namespace {

constexpr std::string_view kMark = "fathom1";
constexpr std::size_t kChecksumBytes = 4;
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// FNV-1a: protects against accidents, not against attackers.
std::string Checksum(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  std::string bytes;
  for (std::size_t i = 0; i < kChecksumBytes; ++i) {
    bytes.push_back(static_cast<char>(hash >> (8 * i) & 0xFF));
  }
  return bytes;
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text.push_back(i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=');
    }
  }
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> n_bits & 0xFF));
  }
  return bytes;
}

}  // namespace

std::string MakeReasoningToken(std::string_view reasoning) {
  return ToBase64(std::string(kMark).append(Checksum(reasoning)).append(reasoning));
}

std::optional<std::string> ReadReasoningToken(std::string_view token) {
  const std::optional<std::string> bytes = FromBase64(token);
  if (!bytes || !bytes->starts_with(kMark)) return std::nullopt;
  const std::string_view rest = std::string_view(*bytes).substr(kMark.size());
  if (rest.size() < kChecksumBytes) return std::nullopt;
  const std::string_view reasoning = rest.substr(kChecksumBytes);
  if (rest.substr(0, kChecksumBytes) != Checksum(reasoning)) return std::nullopt;
  // Any client can compute the checksum, and prompts must be UTF-8.
  if (!IsValidUtf8(reasoning)) return std::nullopt;
  return std::string(reasoning);
}

}  // namespace fathom::api
