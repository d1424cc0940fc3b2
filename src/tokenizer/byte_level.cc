#include "tokenizer/byte_level.h"

#include <array>

namespace fathom::tokenizer {
namespace {

constexpr std::size_t kOtherBytes = 68;  // bytes that do not represent themselves
constexpr std::uint32_t kFirstOther = 0x100;

constexpr bool StandsForItself(std::uint32_t code) {
  return (code >= 0x21 && code <= 0x7E) || (code >= 0xA1 && code <= 0xAC) ||
         (code >= 0xAE && code <= 0xFF);
}

constexpr std::array<std::uint8_t, kOtherBytes> MakeOthers() {
  std::array<std::uint8_t, kOtherBytes> others = {};
  std::size_t n_others = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(byte)) {
      others[n_others++] = static_cast<std::uint8_t>(byte);
    }
  }
  return others;
}

constexpr std::array<std::uint8_t, kOtherBytes> kOthers = MakeOthers();

}  // namespace

std::string ByteToSymbol(std::uint8_t byte) {
  std::uint32_t code = byte;
  if (!StandsForItself(byte)) {
    code = kFirstOther;
    while (kOthers[code - kFirstOther] != byte) {
      ++code;
    }
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

std::optional<std::string> SymbolsToBytes(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    std::uint32_t code = static_cast<std::uint8_t>(symbols[i]);
    if (code >= 0x80) {  // every symbol is below U+0800: two bytes at most
      if ((code & 0xE0) != 0xC0 || i + 1 == symbols.size()) return std::nullopt;
      ++i;
      code = ((code & 0x1F) << 6) | (static_cast<std::uint8_t>(symbols[i]) & 0x3Fu);
    }
    if (StandsForItself(code)) {
      bytes += static_cast<char>(code);
    } else if (code >= kFirstOther && code < kFirstOther + kOtherBytes) {
      bytes += static_cast<char>(kOthers[code - kFirstOther]);
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace fathom::tokenizer
