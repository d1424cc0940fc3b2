#include "base/utf8.h"

#include <cstring>

namespace fathom {
namespace {

using Kind = Utf8Sequence::Kind;

// The bytes that may follow a first byte. Only the second byte has its own range (which excludes
// overlong forms, surrogates and values above U+10FFFF); later bytes are 80..BF.
struct Lead {
  std::size_t n_bytes;  // 0: no code point begins with this byte
  std::uint8_t second_min;
  std::uint8_t second_max;
};

Lead ReadLead(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Returns the length of an ASCII prefix of text: the longest one, rounded down to whole words.
std::size_t AsciiPrefix(std::string_view text) {
  std::size_t n_bytes = 0;
  std::uint64_t word = 0;
  while (n_bytes + sizeof(word) <= text.size()) {
    std::memcpy(&word, text.data() + n_bytes, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
    n_bytes += sizeof(word);
  }
  return n_bytes;
}

// Returns the length of the longest well-formed prefix of text.
std::size_t ValidPrefix(std::string_view text) {
  std::size_t n_bytes = 0;
  while (n_bytes < text.size()) {
    n_bytes += AsciiPrefix(text.substr(n_bytes));
    if (n_bytes == text.size()) break;
    const Utf8Sequence sequence = FirstUtf8Sequence(text.substr(n_bytes));
    if (sequence.kind != Kind::kComplete) break;
    n_bytes += sequence.n_bytes;
  }
  return n_bytes;
}

}  // namespace

Utf8Sequence FirstUtf8Sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const Lead lead = ReadLead(byte(0));
  if (lead.n_bytes <= 1) return {lead.n_bytes == 1 ? Kind::kComplete : Kind::kBroken, 1};
  for (std::size_t i = 1; i < lead.n_bytes; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i};
    const std::uint8_t low = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Kind::kBroken, i};
  }
  return {Kind::kComplete, lead.n_bytes};
}

std::optional<std::size_t> FindInvalidUtf8(std::string_view text) {
  const std::size_t n_valid = ValidPrefix(text);
  if (n_valid == text.size()) return std::nullopt;
  return n_valid;
}

void AppendUtf8(std::uint32_t code_point, std::string& text) {
  const auto push = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { push(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    tail(0);
  } else if ((code_point >= 0xD800 && code_point < 0xE000) || code_point > 0x10FFFF) {
    text += kReplacementCharacter;
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    push(0xF0 | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  Utf8Stream stream;
  stream.Push(text, repaired);
  stream.Finish(repaired);
  return repaired;
}

std::string ShortenedUtf8(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t cut = max_bytes;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

void Utf8Stream::Push(std::string_view bytes, std::string& text) {
  // Complete the held code point byte by byte; a byte that breaks it is processed again below.
  while (n_held_ > 0 && !bytes.empty()) {
    held_[n_held_] = bytes.front();
    const Utf8Sequence sequence = FirstUtf8Sequence({held_.data(), n_held_ + 1});
    if (sequence.kind == Kind::kBroken) {
      text += kReplacementCharacter;
      n_held_ = 0;
      break;
    }
    bytes.remove_prefix(1);
    ++n_held_;
    if (sequence.kind == Kind::kComplete) {
      text.append(held_.data(), n_held_);
      n_held_ = 0;
    }
  }
  while (!bytes.empty()) {
    const std::size_t n_valid = ValidPrefix(bytes);
    text.append(bytes.substr(0, n_valid));
    bytes.remove_prefix(n_valid);
    if (bytes.empty()) return;
    const Utf8Sequence sequence = FirstUtf8Sequence(bytes);
    if (sequence.kind == Kind::kIncomplete) {
      n_held_ = sequence.n_bytes;
      bytes.copy(held_.data(), n_held_);
      return;
    }
    text += kReplacementCharacter;
    bytes.remove_prefix(sequence.n_bytes);
  }
}

void Utf8Stream::Finish(std::string& text) {
  if (n_held_ > 0) {
    text += kReplacementCharacter;
    n_held_ = 0;
  }
}

}  // namespace fathom
