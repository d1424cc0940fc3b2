#include "engine/stop_strings.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::engine {
namespace {

std::vector<std::size_t> Borders(std::string_view text) {
  std::vector<std::size_t> border(text.size() + 1, 0);
  std::size_t length = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) {
      length = border[length];
    }
    if (text[i] == text[length]) ++length;
    border[i + 1] = length;
  }
  return border;
}

}  // namespace

StopStrings::StopStrings(std::span<const std::string> strings) {
  for (const std::string& text : strings) {
    Check(!text.empty(), "a stop string is not empty");
    patterns_.push_back({.text = text, .border = Borders(text)});
  }
}

// No pattern is complete before the call: Feed stops at the first match.
void StopStrings::Advance(char byte) {
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[i];
    while (pattern.n_matched > 0 && byte != pattern.text[pattern.n_matched]) {
      pattern.n_matched = pattern.border[pattern.n_matched];
    }
    if (byte == pattern.text[pattern.n_matched]) ++pattern.n_matched;
    const bool complete = pattern.n_matched == pattern.text.size();
    if (complete && (!matched_ || pattern.text.size() > patterns_[*matched_].text.size())) {
      matched_ = i;
    }
  }
}

std::size_t StopStrings::LongestPartialMatch() const {
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_) {
    longest = std::max(longest, pattern.n_matched);
  }
  return longest;
}

std::string_view StopStrings::Feed(std::string_view piece) {
  pending_.erase(0, returned_);
  returned_ = 0;
  if (matched_) return {};
  for (const char byte : piece) {
    pending_.push_back(byte);
    Advance(byte);
    if (matched_) {
      pending_.resize(pending_.size() - patterns_[*matched_].text.size());
      returned_ = pending_.size();
      return pending_;
    }
  }
  returned_ = pending_.size() - LongestPartialMatch();
  return std::string_view(pending_).substr(0, returned_);
}

std::string_view StopStrings::Flush() {
  pending_.erase(0, returned_);
  returned_ = pending_.size();
  return pending_;
}

}  // namespace fathom::engine
