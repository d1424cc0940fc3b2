#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "api/anthropic/messages_request.h"

namespace fathom::api {
namespace {

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";
constexpr std::string_view kTokensOpen = "<total_tokens>";
constexpr std::string_view kTokensClose = " tokens left</total_tokens>";

std::string WithoutBillingHeader(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    std::size_t line = std::min(text.find('\n'), text.size());
    if (text.starts_with(kBillingHeader)) {
      line = std::min(text.find_first_not_of('\n', line), text.size());
    } else {
      line = std::min(line + 1, text.size());
      kept.append(text.substr(0, line));
    }
    text.remove_prefix(line);
  }
  return kept;
}

// Returns the length in bytes of the marker at the beginning of `text`, or 0.
std::size_t TokensMarker(std::string_view text) {
  const std::size_t end =
      std::min(text.find_first_not_of("0123456789,", kTokensOpen.size()), text.size());
  const bool is_marker = end > kTokensOpen.size() && text.substr(end).starts_with(kTokensClose);
  return is_marker ? end + kTokensClose.size() : 0;
}

std::string WithoutTokensMarkers(std::string_view text) {
  std::string kept;
  while (true) {
    const std::size_t open = text.find(kTokensOpen);
    kept.append(text.substr(0, open));
    if (open == std::string_view::npos) return kept;
    text.remove_prefix(open);
    const std::size_t marker = TokensMarker(text);
    if (marker > 0) {
      kept.erase(kept.find_last_not_of('\n') + 1);
      text.remove_prefix(marker);
    } else {
      kept.append(kTokensOpen);
      text.remove_prefix(kTokensOpen.size());
    }
  }
}

}  // namespace

std::string StableSystemText(std::string_view text) {
  return WithoutTokensMarkers(WithoutBillingHeader(text));
}

}  // namespace fathom::api
