#include "http/http_request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"
#include "http/content_decoder.h"

namespace fathom::http {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastString = boost::beast::string_view;

// A body is decoded in pieces of this size, on the stack.
constexpr std::size_t kDecodedBytes = std::size_t{16} << 10;

std::string_view View(BeastString text) { return {text.data(), text.size()}; }

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A proxy may send "http://host/path" instead of "/path".
std::string_view WithoutAuthority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!EqualsWithoutCase(target.substr(0, scheme.size()), scheme)) continue;
    const std::size_t end = target.find_first_of("/?", scheme.size());
    return end == std::string_view::npos ? "/" : target.substr(end);
  }
  return target;
}

// Returns "/v1/models" for "//v1/models/": clients join a base URL and a path in many ways. All
// readers of the path see only this form, so no rule can be bypassed by another spelling.
std::string WithoutEmptySegments(std::string_view path) {
  std::string plain;
  for (const char c : path) {
    if (c != '/' || !plain.ends_with('/')) plain += c;
  }
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

HttpRefusal RefusalFor(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::body_limit) {
    return {413, fmt::format("The body has more than {} bytes.", limits.body_bytes)};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return {431, fmt::format("The header has more than {} bytes.", limits.header_bytes)};
  }
  if (error == http::error::bad_version) return {505, "Expected HTTP/1.0 or HTTP/1.1."};
  return {400, fmt::format("Not a valid HTTP request: {}.", error.message())};
}

}  // namespace

std::string_view HttpRequest::Field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (EqualsWithoutCase(key, name)) return value;
  }
  return "";
}

// Beast parses; this class stores the parts, and refuses input that Beast accepts wrongly.
class HttpRequestParser::Reader : public http::basic_parser<true> {
 public:
  Reader(const HttpLimits& limits, ByteBudget& all_bodies)
      : limits_(limits), all_bodies_(all_bodies) {
    body_limit(limits.body_bytes);
    // Beast does not count what it has consumed: FeedHeader does.
    header_limit(static_cast<std::uint32_t>(
        std::min<std::size_t>(limits.header_bytes, std::uint32_t{1} << 30)));
  }
  ~Reader() override { all_bodies_.GiveBack(n_held_); }

  std::size_t Feed(std::string_view bytes) {
    Check(state_ == State::kHeader || state_ == State::kBody, "a request that is over is fed");
    return state_ == State::kHeader ? FeedHeader(bytes) : FeedBody(bytes);
  }

  void Refuse(HttpRefusal refusal) {
    state_ = State::kRefused;
    refusal_ = std::move(refusal);
  }

  State state() const { return state_; }
  const HttpRefusal& refusal() const { return refusal_; }
  HttpRequest& request() { return request_; }
  std::size_t n_body_bytes() const { return n_body_bytes_; }
  bool is_http_1_0() const { return version_ == 10; }
  bool expects_continue() const { return expects_continue_; }

 protected:
  void on_request_impl(http::verb, BeastString method, BeastString target, int version,
                       error_code&) override {
    request_.method = View(method);
    const std::string_view path = WithoutAuthority(View(target));
    const std::size_t mark = path.find('?');
    request_.path = mark == 0 ? "/" : WithoutEmptySegments(path.substr(0, mark));
    if (mark != std::string_view::npos) request_.query = path.substr(mark + 1);
    version_ = version;
  }

  void on_field_impl(http::field, BeastString name, BeastString value, error_code& error) override {
    if (state_ != State::kHeader) return;  // a trailer: ignored, because it cannot be trusted
    // A field of four bytes takes many times its size in memory.
    if (request_.fields.size() >= limits_.fields) {
      return RefuseNow({431, fmt::format("The header has more than {} fields.", limits_.fields)},
                       error);
    }
    ReadField(View(name), View(value), error);
    request_.fields.emplace_back(View(name), View(value));
  }

  void on_header_impl(error_code& error) override {
    if (version_ == 11 && n_hosts_ != 1) {
      RefuseNow({400, "Expected one Host field."}, error);
    } else if (has_encoding_ && version_ == 10) {
      RefuseNow({400, "HTTP/1.0 has no Transfer-Encoding."}, error);
    }
    coding_ = FindContentCoding(request_.fields).value_or(ContentCoding::kIdentity);
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}

  std::size_t on_body_impl(BeastString bytes, error_code& error) override {
    n_body_bytes_ += bytes.size();
    if (coding_ == ContentCoding::kIdentity) {
      AddToBody(View(bytes), error);
    } else {
      Decode(View(bytes), error);
    }
    return bytes.size();
  }

  std::size_t on_chunk_body_impl(std::uint64_t, BeastString bytes, error_code& error) override {
    return on_body_impl(bytes, error);
  }

  void on_chunk_header_impl(std::uint64_t, BeastString, error_code&) override {}
  void on_finish_impl(error_code& error) override {
    if (decoder_ == nullptr) return;
    if (!decoder_->is_whole()) {
      return RefuseNow({400, "Content-Encoding: the body ends too early."}, error);
    }
    decoder_.reset();
    static_cast<void>(Hold(request_.body.size()));
  }
  void on_response_impl(int, BeastString, int, error_code&) override {}

 private:
  // Takes n_bytes from the budget. Returns false if there are not as many.
  bool Hold(std::size_t n_bytes) {
    if (n_bytes > n_held_ && !all_bodies_.Take(n_bytes - n_held_)) return false;
    if (n_bytes < n_held_) all_bodies_.GiveBack(n_held_ - n_bytes);
    n_held_ = n_bytes;
    return true;
  }

  void AddToBody(std::string_view bytes, error_code& error) {
    const std::size_t n_decoder = decoder_ == nullptr ? 0 : decoder_->memory();
    if (!Hold(request_.body.size() + bytes.size() + n_decoder)) {
      return RefuseNow({503, "Too many large requests at once. Please try again."}, error);
    }
    request_.body += bytes;
  }

  // Stops at the limit: a few bytes can decode to many.
  void Decode(std::string_view bytes, error_code& error) {
    if (decoder_ == nullptr) {
      Result<std::unique_ptr<ContentDecoder>> decoder = ContentDecoder::Make(coding_);
      if (!decoder) return RefuseNow({503, decoder.error().message}, error);
      decoder_ = *std::move(decoder);
    }
    std::array<char, kDecodedBytes> room;
    bool has_more = true;
    while (has_more) {
      const Result<std::size_t> n_decoded = decoder_->Decode(&bytes, room);
      if (!n_decoded) return RefuseNow({400, n_decoded.error().message}, error);
      if (*n_decoded > limits_.body_bytes - request_.body.size()) {
        return RefuseNow(RefusalFor(http::error::body_limit, limits_), error);
      }
      AddToBody({room.data(), *n_decoded}, error);
      has_more = state_ != State::kRefused && (!bytes.empty() || *n_decoded == room.size());
    }
  }

  void RefuseNow(HttpRefusal refusal, error_code& error) {
    Refuse(std::move(refusal));
    error = http::error::bad_field;  // any error ends the parsing
  }

  void ReadField(std::string_view name, std::string_view value, error_code& error) {
    if (EqualsWithoutCase(name, "Host")) {
      ++n_hosts_;
    } else if (EqualsWithoutCase(name, "Content-Length")) {
      if (std::exchange(has_length_, true) || !IsDigits(value)) {
        RefuseNow({400, "Expected one Content-Length, of digits."}, error);
      }
    } else if (EqualsWithoutCase(name, "Transfer-Encoding")) {
      has_encoding_ = true;
      if (!EqualsWithoutCase(value, "chunked")) {
        RefuseNow({501, "Expected no Transfer-Encoding but 'chunked'."}, error);
      }
    } else if (EqualsWithoutCase(name, "Expect")) {
      expects_continue_ = true;
      if (!EqualsWithoutCase(value, "100-continue")) {
        RefuseNow({417, "Expected no Expect but '100-continue'."}, error);
      }
    }
  }

  std::size_t FeedHeader(std::string_view bytes) {
    const std::size_t left = limits_.header_bytes - header_bytes_;
    const std::size_t n_bytes = Put(bytes.substr(0, left));
    header_bytes_ += n_bytes;
    if (state_ == State::kRefused) return n_bytes;
    if (is_header_done()) {
      state_ = is_done() ? State::kComplete : State::kBody;
    } else if (bytes.size() >= left) {
      Refuse(RefusalFor(http::error::header_limit, limits_));
    }
    return n_bytes;
  }

  std::size_t FeedBody(std::string_view bytes) {
    std::size_t n_bytes = 0;
    while (state_ == State::kBody && n_bytes < bytes.size()) {
      const std::size_t n_put = Put(bytes.substr(n_bytes));
      n_bytes += n_put;
      if (state_ == State::kRefused) break;
      if (is_done()) state_ = State::kComplete;
      if (n_put == 0) break;
    }
    // Bytes before a chunk or after the last one are not part of the body, and must not grow
    // without limit.
    if (state_ == State::kBody && bytes.size() - n_bytes > limits_.header_bytes) {
      Refuse(RefusalFor(http::error::buffer_overflow, limits_));
    }
    return n_bytes;
  }

  std::size_t Put(std::string_view bytes) {
    if (bytes.empty()) return 0;
    error_code error;
    const std::size_t n_bytes = put({bytes.data(), bytes.size()}, error);
    if (error && error != http::error::need_more && state_ != State::kRefused) {
      Refuse(RefusalFor(error, limits_));
    }
    return n_bytes;
  }

  const HttpLimits& limits_;
  ByteBudget& all_bodies_;
  HttpRequest request_;
  HttpRefusal refusal_;
  State state_ = State::kHeader;
  std::size_t header_bytes_ = 0;
  ContentCoding coding_ = ContentCoding::kIdentity;
  std::unique_ptr<ContentDecoder> decoder_;  // set from the first byte of a coded body on
  std::size_t n_body_bytes_ = 0;             // received bytes
  std::size_t n_held_ = 0;                   // bytes taken from all_bodies_
  int version_ = 11;
  int n_hosts_ = 0;
  bool has_length_ = false;
  bool has_encoding_ = false;
  bool expects_continue_ = false;
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits, ByteBudget& all_bodies)
    : reader_(std::make_unique<Reader>(limits, all_bodies)) {}

HttpRequestParser::~HttpRequestParser() = default;

std::size_t HttpRequestParser::Feed(std::string_view bytes) { return reader_->Feed(bytes); }

void HttpRequestParser::Refuse(HttpRefusal refusal) { reader_->Refuse(std::move(refusal)); }

HttpRequestParser::State HttpRequestParser::state() const { return reader_->state(); }
const HttpRefusal& HttpRequestParser::refusal() const { return reader_->refusal(); }
const HttpRequest& HttpRequestParser::request() const { return reader_->request(); }
HttpRequest& HttpRequestParser::request() { return reader_->request(); }
std::size_t HttpRequestParser::n_body_bytes() const { return reader_->n_body_bytes(); }
bool HttpRequestParser::is_http_1_0() const { return reader_->is_http_1_0(); }
bool HttpRequestParser::keeps_alive() const { return reader_->keep_alive(); }
bool HttpRequestParser::expects_continue() const { return reader_->expects_continue(); }

}  // namespace fathom::http
