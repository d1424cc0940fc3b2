// HttpUrl: where a client connects to.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

struct HttpUrl {
  std::string host;  // a name or an address; one of IPv6 without its brackets
  int port = 80;
  std::string path;  // what goes before every path: "" or "/prefix", never with a slash at its end

  // "host:port", with the brackets.
  std::string authority() const;
};

// http://HOST[:PORT][/PREFIX]. Errors: kUnsupported for https, kInvalidArgument for the rest.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

}  // namespace fathom
