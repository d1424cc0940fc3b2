#include "http/http_response_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace fathom::http {
namespace {

struct Reason {
  int status;
  std::string_view text;
};

constexpr std::array kReasons = {
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{204, "No Content"},
    Reason{301, "Moved Permanently"},
    Reason{302, "Found"},
    Reason{303, "See Other"},
    Reason{304, "Not Modified"},
    Reason{307, "Temporary Redirect"},
    Reason{308, "Permanent Redirect"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{406, "Not Acceptable"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{413, "Content Too Large"},
    Reason{415, "Unsupported Media Type"},
    Reason{417, "Expectation Failed"},
    Reason{422, "Unprocessable Content"},
    Reason{426, "Upgrade Required"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{502, "Bad Gateway"},
    Reason{503, "Service Unavailable"},
    Reason{504, "Gateway Timeout"},
    Reason{505, "HTTP Version Not Supported"},
    Reason{529, "Overloaded"},
};

// Returns "" for unknown statuses: clients read the number.
std::string_view ReasonPhrase(int status) {
  const auto* const found =
      std::find_if(kReasons.begin(), kReasons.end(),
                   [&](const Reason& reason) { return reason.status == status; });
  return found == kReasons.end() ? "" : found->text;
}

// Writes the date as RFC 9110 demands, in English: fmt ignores the user's language.
std::string DateText(std::time_t now) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(now));
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool IsFieldName(std::string_view name) {
  const auto is_bad = [](char c) {
    return c <= ' ' || c >= 0x7f || std::string_view("\"(),/:;<=>?@[\\]{}").find(c) < 17;
  };
  return !name.empty() && std::none_of(name.begin(), name.end(), is_bad);
}

void AppendField(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  std::transform(value.begin(), value.end(), std::back_inserter(text),
                 [](char c) { return IsControl(c) && c != '\t' ? ' ' : c; });
  text += "\r\n";
}

}  // namespace

bool HasNoBody(int status) { return status < 200 || status == 204 || status == 304; }

std::string ResponseHeader(const HttpResponse& response, BodyFraming framing,
                           Persistence persistence, std::time_t now) {
  Check(response.status >= 200 && response.status <= 599, "a response with a wrong status");
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  AppendField(text, "Server", "fathom");
  AppendField(text, "Date", DateText(now));
  if (!HasNoBody(response.status)) {
    if (!response.content_type.empty()) AppendField(text, "Content-Type", response.content_type);
    if (framing == BodyFraming::kLength) {
      AppendField(text, "Content-Length", std::to_string(response.body.size()));
    } else if (framing == BodyFraming::kChunked) {
      AppendField(text, "Transfer-Encoding", "chunked");
    }
  }
  if (persistence == Persistence::kClose) AppendField(text, "Connection", "close");
  if (persistence == Persistence::kKeepHttp1_0) AppendField(text, "Connection", "keep-alive");
  for (const auto& [name, value] : response.fields) {
    Check(IsFieldName(name), "a response has a field with a wrong name");
    AppendField(text, name, value);
  }
  text += "\r\n";
  return text;
}

}  // namespace fathom::http
