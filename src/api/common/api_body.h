// ApiBody: the body of a request, and whether anybody still waits for the answer.
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace fathom {

struct ApiBody {
  template <class Text, class = std::enable_if_t<std::is_convertible_v<Text, std::string_view>>>
  ApiBody(const Text& body, std::function<bool()> abandoned = {})
      : text(body), is_abandoned(std::move(abandoned)) {}

  std::string_view text;  // of the caller
  // Asked from time to time while a long body is read; true ends the reading with kUnavailable. May
  // be empty.
  std::function<bool()> is_abandoned;
};

}  // namespace fathom
