// HttpRequestParser: parses bytes to one HttpRequest, or to the status that refuses it.
//
// Stricter than the RFCs where a proxy could read a request in another way, which would allow
// request smuggling: Content-Length must be digits, once, and never together with
// Transfer-Encoding, which must be "chunked" or absent.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "http/http.h"

namespace fathom::http {

// Limits the total bytes of all connections. Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}

  // Returns false and takes nothing if fewer bytes are left.
  bool Take(std::size_t n_bytes) {
    std::size_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (n_bytes > limit_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + n_bytes, std::memory_order_relaxed));
    return true;
  }
  void GiveBack(std::size_t n_bytes) { taken_.fetch_sub(n_bytes, std::memory_order_relaxed); }

  std::size_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> taken_ = 0;
};

// One thread. `all_bodies` must outlive the parser, which takes from it the bytes of its body and
// of the body's decoder. A body with an unknown coding stays encoded; no byte is decoded before
// Feed is called after the header.
class HttpRequestParser {
 public:
  enum class State { kHeader, kBody, kComplete, kRefused };

  HttpRequestParser(const HttpLimits& limits, ByteBudget& all_bodies);
  ~HttpRequestParser();  // returns the bytes of the body to the budget
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Reads from the front of `bytes`, which must follow the consumed ones, and returns the number of
  // consumed bytes. The caller passes the remaining bytes again, followed by more. Stops after the
  // header and after the body. Must not be called after kComplete or kRefused.
  std::size_t Feed(std::string_view bytes);
  // Ends the parsing: no more bytes will come.
  void Refuse(HttpRefusal refusal);

  State state() const;
  const HttpRefusal& refusal() const;  // if kRefused
  // Returns the whole request if kComplete; otherwise the parts read so far, for the answer to a
  // refusal.
  const HttpRequest& request() const;
  HttpRequest& request();

  // Returns the received bytes of the body, before decoding.
  std::size_t n_body_bytes() const;

  // Valid after the header.
  bool is_http_1_0() const;
  bool keeps_alive() const;
  bool expects_continue() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace fathom::http
