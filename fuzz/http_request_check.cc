#include "fuzz/http_request_check.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "http/http_request_parser.h"

namespace fathom::fuzz {
namespace {

using State = HttpRequestParser::State;

// Small enough for a fuzzer's inputs to reach the limits.
constexpr std::size_t kHeaderBytes = 512;
constexpr std::size_t kBodyBytes = 256;
constexpr std::size_t kAllBodyBytes = 200;

struct Reading {
  std::vector<HttpRequest> requests;
  std::string wrong;
};

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f;
  });
}

std::string WrongRequest(const HttpRequest& request) {
  if (request.method.empty() || HasControl(request.method)) return "a wrong method";
  if (request.path.empty() || HasControl(request.path)) return "a wrong path";
  if (request.path.find('?') != std::string::npos) return "a query in the path";
  if (request.path.find("//") != std::string::npos) return "an empty segment in the path";
  if (HasControl(request.query)) return "a wrong query";
  if (request.body.size() > kAllBodyBytes) return "a body over the limit";
  for (const auto& [name, value] : request.fields) {
    if (name.empty() || HasControl(name)) return "a wrong name of a field";
    if (HasControl(value)) return "a wrong value of a field";
  }
  return "";
}

// Takes whole requests from the front of `pending`, as a connection does.
bool TakeRequests(std::string& pending, HttpRequestParser& parser, Reading& reading) {
  for (;;) {
    const State before = parser.state();
    const std::size_t n_bytes = parser.Feed(pending);
    if (n_bytes > pending.size()) reading.wrong = "more bytes consumed than there were";
    pending.erase(0, n_bytes);
    if (parser.state() == State::kRefused) {
      if (parser.refusal().status < 400) reading.wrong = "a refusal without a status";
      if (parser.refusal().message.empty()) reading.wrong = "a refusal without a message";
      return false;
    }
    if (parser.state() == State::kComplete) {
      const std::string wrong = WrongRequest(parser.request());
      if (!wrong.empty()) reading.wrong = wrong;
      static_cast<void>(parser.keeps_alive());
      reading.requests.push_back(std::move(parser.request()));
      return true;
    }
    if (parser.state() == before) return true;
  }
}

Reading Read(std::string_view input, std::size_t step) {
  const HttpLimits limits = {.header_bytes = kHeaderBytes, .body_bytes = kBodyBytes};
  ByteBudget budget(kAllBodyBytes);
  Reading reading;
  std::string pending;
  auto parser = std::make_unique<HttpRequestParser>(limits, budget);
  while (!input.empty() || !pending.empty()) {
    const std::size_t n_read = std::min(step, input.size());
    pending += input.substr(0, n_read);
    input.remove_prefix(n_read);
    if (!TakeRequests(pending, *parser, reading)) break;
    if (parser->state() == State::kComplete) {
      parser = std::make_unique<HttpRequestParser>(limits, budget);
    } else if (n_read == 0) {
      break;
    }
    // A header may wait for its end, and a chunk for its line: both are short.
    if (pending.size() > kHeaderBytes + step) reading.wrong = "bytes that gather without end";
  }
  parser.reset();
  if (budget.taken() != 0) reading.wrong = "bytes that were not given back";
  return reading;
}

bool IsSame(const HttpRequest& a, const HttpRequest& b) {
  return a.method == b.method && a.path == b.path && a.query == b.query && a.fields == b.fields &&
         a.body == b.body;
}

}  // namespace

std::string CheckHttpRequest(std::string_view input) {
  const Reading whole = Read(input, std::max<std::size_t>(input.size(), 1));
  if (!whole.wrong.empty()) return whole.wrong;
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}}) {
    const Reading pieces = Read(input, step);
    if (!pieces.wrong.empty()) return pieces.wrong;
    if (!std::equal(whole.requests.begin(), whole.requests.end(), pieces.requests.begin(),
                    pieces.requests.end(), IsSame)) {
      return "other requests if the bytes come in pieces";
    }
  }
  return "";
}

}  // namespace fathom::fuzz
