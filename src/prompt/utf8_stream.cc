#include "prompt/utf8_stream.h"

#include <cstddef>

namespace fathom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Step {
  std::size_t bytes;  // how many bytes to take
  enum { kCodePoint, kInvalid, kIncomplete } outcome;
};

// The sequence at the start of `text` (not empty). kInvalid takes the longest part that could have
// begun a sequence, at least one byte.
Step NextSequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, Step::kCodePoint};
  if (lead < 0xC2 || lead > 0xF4) return {1, Step::kInvalid};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, Step::kIncomplete};
    // Overlong forms, surrogates and values above U+10FFFF show in the second byte.
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte(i) < low || byte(i) > high) return {i, Step::kInvalid};
  }
  return {length, Step::kCodePoint};
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Step step = NextSequence(text);
    if (step.outcome != Step::kCodePoint) return false;
    text.remove_prefix(step.bytes);
  }
  return true;
}

void AppendUtf8(std::uint32_t code, std::string* out) {
  const auto push = [out](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { push(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | (code >> 6));
    tail(0);
  } else if ((code >= 0xD800 && code < 0xE000) || code > 0x10FFFF) {
    out->append(kReplacement);
  } else if (code < 0x10000) {
    push(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    push(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

void Utf8Stream::Feed(std::string_view bytes, std::string* out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined.append(bytes);
    bytes = joined;
    held_.clear();
  }
  while (!bytes.empty()) {
    const Step step = NextSequence(bytes);
    if (step.outcome == Step::kIncomplete) {
      held_ = bytes;
      return;
    }
    out->append(step.outcome == Step::kCodePoint ? bytes.substr(0, step.bytes) : kReplacement);
    bytes.remove_prefix(step.bytes);
  }
}

void Utf8Stream::Finish(std::string* out) {
  if (!held_.empty()) out->append(kReplacement);
  held_.clear();
}

}  // namespace fathom
