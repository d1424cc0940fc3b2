// HttpRequestParser: bytes to one HttpRequest, or to the status that refuses it.
//
// Stricter than the RFCs where two readings of a request would let it be smuggled past a proxy:
// Content-Length is digits, once, and never beside Transfer-Encoding, which is "chunked" or
// nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/byte_budget.h"
#include "http/http.h"

namespace fathom {

// Why a request is not handled; the connection cannot be used for another one.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

// One thread. Holds `all_bodies` while it lives, and has taken from it the bytes of its body.
class HttpRequestParser {
 public:
  enum class State { kHeader, kBody, kComplete, kRefused };

  HttpRequestParser(const HttpLimits& limits, ByteBudget& all_bodies);
  ~HttpRequestParser();  // gives the bytes of the body back
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Reads from the front of `bytes`, which follow those consumed before, and returns how many it
  // consumed. The others come again, with more behind them. Stops once behind the header and once
  // behind the body. Not after kComplete or kRefused.
  std::size_t Feed(std::string_view bytes);
  // No more bytes will come.
  void Refuse(HttpRefusal refusal);

  State state() const;
  const HttpRefusal& refusal() const;  // if kRefused
  // All of it if kComplete; else what has been read, for the answer to a refusal.
  const HttpRequest& request() const;
  HttpRequest& request();

  // Behind the header.
  bool is_http_1_0() const;
  bool keeps_alive() const;
  bool expects_continue() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace fathom
