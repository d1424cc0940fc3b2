// ApiBody: the body of a request, and whether a client still waits for the answer.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/stop_check.h"

namespace fathom::api {

struct ApiBody {
  template <class Text, class = std::enable_if_t<std::is_convertible_v<Text, std::string_view>>>
  ApiBody(const Text& body, StopFunction abandoned = {})
      : text(body), is_abandoned(std::move(abandoned)) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  }

  // The caller's bytes, without the byte order mark that some editors and shells write first.
  std::string_view text;
  // Called from time to time while a long body is read, and while its text is encoded as tokens.
  // Returns true to end this work with kUnavailable. May be empty.
  StopFunction is_abandoned;
};

}  // namespace fathom::api
