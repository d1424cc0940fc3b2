// HttpRequestParser: bytes to one HttpRequest, or to the status that refuses it.
//
// Stricter than the RFCs where a request that can be read in two ways could be smuggled past a
// proxy: Content-Length must be digits, once, and never beside Transfer-Encoding, which is
// "chunked" or nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/byte_budget.h"
#include "http/http.h"

namespace fathom {

// The reason why a request is not handled; the connection cannot be used for another request.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

// One thread. Refers to `all_bodies` while it lives, and takes the bytes of its body from it.
class HttpRequestParser {
 public:
  enum class State { kHeader, kBody, kComplete, kRefused };

  HttpRequestParser(const HttpLimits& limits, ByteBudget& all_bodies);
  ~HttpRequestParser();  // gives the bytes of the body back
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Reads from the front of `bytes`, which follow the consumed ones, and returns the number of
  // consumed bytes. The caller passes the remaining bytes again, with more behind them. Stops
  // behind the header and behind the body. Not after kComplete or kRefused.
  std::size_t Feed(std::string_view bytes);
  // Ends the parsing: no more bytes will come.
  void Refuse(HttpRefusal refusal);

  State state() const;
  const HttpRefusal& refusal() const;  // if kRefused
  // The whole request if kComplete; else what has been read, for the answer to a refusal.
  const HttpRequest& request() const;
  HttpRequest& request();

  // Valid behind the header.
  bool is_http_1_0() const;
  bool keeps_alive() const;
  bool expects_continue() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace fathom
