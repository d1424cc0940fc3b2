#include "http/http_url.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace fathom {
namespace {

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) {
    return std::nullopt;
  }
  return port;
}

tl::unexpected<Error> BadUrl(std::string_view text) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "expected http://HOST[:PORT][/PREFIX], found \"{}\"", text);
}

// Where the host ends: behind the bracket of an IPv6 address, else at the colon of the port.
std::size_t HostEnd(std::string_view authority) {
  if (!authority.starts_with('[')) return std::min(authority.find(':'), authority.size());
  const std::size_t bracket = authority.find(']');
  return bracket == authority.npos ? 0 : bracket + 1;
}

}  // namespace

std::string HttpUrl::authority() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (text.starts_with("https://")) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: https is not supported; use http, or a proxy in front of the server",
                     text);
  }
  const bool has_blanks = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7F';
  });
  if (!text.starts_with(kScheme) || has_blanks ||
      text.find_first_of("?#@") != std::string_view::npos) {
    return BadUrl(text);
  }
  const std::string_view rest = text.substr(kScheme.size());
  const std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view host = authority.substr(0, HostEnd(authority));
  const std::string_view port = authority.substr(host.size());
  HttpUrl url;
  if (!port.empty()) {
    const auto number = port.starts_with(':') ? ParsePort(port.substr(1)) : std::nullopt;
    if (!number) return BadUrl(text);
    url.port = *number;
  }
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return BadUrl(text);
  url.host = host;
  url.path = rest.substr(authority.size());
  while (url.path.ends_with('/')) {
    url.path.pop_back();
  }
  return url;
}

}  // namespace fathom
