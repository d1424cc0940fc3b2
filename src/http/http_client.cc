#include "http/http_client.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <iterator>
#include <utility>

namespace fathom {
namespace {

namespace beast_http = boost::beast::http;
using Parser = beast_http::response_parser<beast_http::buffer_body>;

constexpr std::size_t kPieceBytes = std::size_t{16} << 10;

bool HasLineBreak(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos;
}

// Beast's own writer throws where a field is too long.
Result<std::string> HeaderOf(const HttpUrl& url, const HttpCall& call) {
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", call.method, url.path,
                                 call.path, url.authority());
  for (const auto& [name, value] : call.fields) {
    if (HasLineBreak(name) || HasLineBreak(value)) {
      return MakeError(ErrorCode::kInvalidArgument, "a line break in the field {}",
                       HasLineBreak(name) ? "name" : name);
    }
    fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  }
  if (!call.body.empty() || call.method == "POST") {
    fmt::format_to(std::back_inserter(text), "Content-Length: {}\r\n", call.body.size());
  }
  return text + "\r\n";
}

// Reads one reply of a connection. The parser takes bytes; the waiting is the socket's.
class ReplyReader {
 public:
  ReplyReader(ClientSocket& socket, const HttpClientLimits& limits, Deadline deadline)
      : socket_(socket), limits_(limits), deadline_(deadline) {}

  // Sets *keep to whether the connection can take another request.
  Result<HttpReply> Read(bool has_body, const HttpPieceSink& sink, bool* keep) {
    for (;;) {
      Parser parser;
      parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
      parser.body_limit(boost::none);
      parser.skip(!has_body);
      const Status header = ReadHeader(parser);
      if (!header) return Unexpected(header.error());
      const int status = static_cast<int>(parser.get().result_int());
      if (status >= 200) return ReadReply(parser, status, sink, keep);
      // 1xx: the reply is still to come.
    }
  }

 private:
  // More bytes behind those of bytes_; false: the server has closed.
  Result<bool> Receive() {
    const Result<std::size_t> n = socket_.Receive(received_, deadline_);
    if (!n) return Unexpected(n.error());
    bytes_.append(received_.data(), *n);
    return *n > 0;
  }

  // What the parser makes of bytes_; *needs_more: it has to see what comes behind.
  Status Parse(Parser& parser, bool* needs_more) {
    boost::system::error_code error;
    const std::size_t n = parser.put(boost::asio::buffer(std::as_const(bytes_)), error);
    bytes_.erase(0, n);
    *needs_more = error == beast_http::error::need_more;
    if (error && !*needs_more && error != beast_http::error::need_buffer) {
      return MakeError(ErrorCode::kInvalidData, "the reply is not HTTP/1.1: {}", error.message());
    }
    return {};
  }

  Status ReadHeader(Parser& parser) {
    while (!parser.is_header_done()) {
      bool needs_more = true;
      const Status parsed = bytes_.empty() ? Status() : Parse(parser, &needs_more);
      if (!parsed) return parsed;
      if (!needs_more) continue;
      const Result<bool> received = Receive();
      if (!received) return Unexpected(received.error());
      if (!*received) {
        return MakeError(ErrorCode::kIo, "the server closed the connection {}",
                         parser.got_some() ? "in the header of its reply" : "without a reply");
      }
    }
    return {};
  }

  Result<HttpReply> ReadReply(Parser& parser, int status, const HttpPieceSink& sink, bool* keep) {
    HttpReply reply = {.status = status, .content_type = {}};
    for (const auto& field : parser.get()) {
      reply.fields.emplace_back(field.name_string(), field.value());
    }
    reply.content_type = parser.get()[beast_http::field::content_type];
    const bool is_streamed = sink != nullptr && status < 300;
    while (!parser.is_done()) {
      const Result<std::string_view> piece = ReadPiece(parser);
      if (!piece) return Unexpected(piece.error());
      if (!is_streamed) {
        reply.body += *piece;
        if (reply.body.size() > limits_.body_bytes) {
          return MakeError(ErrorCode::kInvalidData, "the body has more than {} bytes",
                           limits_.body_bytes);
        }
      } else if (!piece->empty() && !sink(*piece)) {
        return MakeError(ErrorCode::kUnavailable, "ended by who reads it");
      }
    }
    *keep = parser.keep_alive() && bytes_.empty();
    return reply;
  }

  // The next bytes of the body, valid until the next call; may be empty.
  Result<std::string_view> ReadPiece(Parser& parser) {
    if (bytes_.empty() || needs_more_) {
      const Result<bool> received = Receive();
      if (!received) return Unexpected(received.error());
      if (!*received) return ReadEnd(parser);
    }
    auto& body = parser.get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    const Status parsed = Parse(parser, &needs_more_);
    if (!parsed) return Unexpected(parsed.error());
    return std::string_view(piece_.data(), piece_.size() - body.size);
  }

  Result<std::string_view> ReadEnd(Parser& parser) {
    boost::system::error_code error;
    parser.put_eof(error);
    if (error) {
      return MakeError(ErrorCode::kIo, "the server closed the connection in the body of its reply");
    }
    return std::string_view();
  }

  ClientSocket& socket_;
  const HttpClientLimits& limits_;
  const Deadline deadline_;
  std::string bytes_;  // received and not yet parsed
  bool needs_more_ = false;
  std::array<char, kPieceBytes> received_;
  std::array<char, kPieceBytes> piece_;
};

}  // namespace

HttpClient::HttpClient(HttpUrl url, HttpClientLimits limits)
    : url_(std::move(url)), limits_(limits) {}

Result<HttpReply> HttpClient::Send(const HttpCall& call, const HttpPieceSink& sink) {
  Result<HttpReply> reply = Exchange(call, sink);
  if (!reply) {
    socket_.Close();
    return MakeError(reply.error().code, "http://{}: {} {}{}: {}", url_.authority(), call.method,
                     url_.path, call.path, reply.error().message);
  }
  return reply;
}

Result<HttpReply> HttpClient::Exchange(const HttpCall& call, const HttpPieceSink& sink) {
  const Result<std::string> header = HeaderOf(url_, call);
  if (!header) return Unexpected(header.error());
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = start + limits_.request_time;
  if (!socket_.is_open() || socket_.IsStale()) {
    const Status connected =
        socket_.Connect(url_.host, url_.port, std::min(deadline, start + limits_.connect_time));
    if (!connected) return Unexpected(connected.error());
  }
  // In one piece: a small request is one packet.
  const Status sent = socket_.SendAll(*header + call.body, deadline);
  // A server that refuses a body may answer and close while it is still being sent.
  if (!sent && sent.error().code == ErrorCode::kUnavailable) return Unexpected(sent.error());
  bool keep = false;
  Result<HttpReply> reply =
      ReplyReader(socket_, limits_, deadline).Read(call.method != "HEAD", sink, &keep);
  if (!sent && !reply) return Unexpected(sent.error());
  if (!keep || !sent) socket_.Close();
  return reply;
}

}  // namespace fathom
