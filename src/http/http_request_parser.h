// HttpRequestParser: bytes to one HttpRequest, or to the status that refuses it.
//
// Stricter than the RFCs where a request that can be read in two ways could be smuggled past a
// proxy: Content-Length must be digits, once, and never beside Transfer-Encoding, which is
// "chunked" or nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http.h"

namespace fathom {

// Limits the bytes that all connections hold together. Any thread.
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

// One thread. Refers to `all_bodies` while it lives, and takes the bytes of its body from it, and
// the bytes of the decoder of the body. A body whose coding cannot be read stays as it is; no byte
// is decoded before Feed is called after the header.
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

  // Returns the bytes of the body that have come, before they are decoded.
  std::size_t n_body_bytes() const;

  // Valid behind the header.
  bool is_http_1_0() const;
  bool keeps_alive() const;
  bool expects_continue() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace fathom
