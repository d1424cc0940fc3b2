#include "http/http_exchange.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <string>

#include "base/check.h"

namespace fathom {
namespace {

// An iovec serves both directions and is not const; sendmsg only reads.
iovec Part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

}  // namespace

Persistence SocketExchange::persistence() {
  style_.keeps_alive = style_.keeps_alive && !table_.is_draining();
  if (!style_.keeps_alive) return Persistence::kClose;
  return style_.is_http_1_0 ? Persistence::kKeepHttp1_0 : Persistence::kKeep;
}

bool SocketExchange::WriteAll(std::span<iovec> parts) {
  is_broken_ = is_broken_ || !socket_.WriteAll(parts);
  return !is_broken_;
}

void SocketExchange::Send(HttpResponse response) {
  Check(!has_started_, "a request is answered twice");
  has_started_ = true;
  const std::string header =
      ResponseHeader(response, BodyFraming::kLength, persistence(), std::time(nullptr));
  const bool has_body = !style_.is_head && !HasNoBody(response.status);
  std::array parts = {Part(header), Part(has_body ? response.body : std::string_view())};
  is_whole_ = WriteAll(parts);
}

bool SocketExchange::StartStream(HttpResponse head) {
  Check(!has_started_, "a request is answered twice");
  has_started_ = true;
  is_streaming_ = true;
  has_body_ = !style_.is_head && !HasNoBody(head.status);
  framing_ = style_.is_http_1_0 ? BodyFraming::kUntilClose : BodyFraming::kChunked;
  if (style_.is_http_1_0) style_.keeps_alive = false;
  const std::string header = ResponseHeader(head, framing_, persistence(), std::time(nullptr));
  return WritePiece(header, head.body);
}

bool SocketExchange::Write(std::string_view piece) {
  Check(is_streaming_, "a piece is written to no stream");
  return WritePiece("", piece);
}

bool SocketExchange::WritePiece(std::string_view header, std::string_view piece) {
  // The first write after the client's close succeeds; only the client's reset reveals it.
  is_broken_ = ClientIsGone();
  if (is_broken_) return false;
  // An empty chunk would end the stream.
  const bool has_piece = has_body_ && !piece.empty();
  const bool is_chunk = has_piece && framing_ == BodyFraming::kChunked;
  const std::string size = is_chunk ? fmt::format("{:x}\r\n", piece.size()) : "";
  std::array parts = {Part(header), Part(size), Part(has_piece ? piece : ""),
                      Part(is_chunk ? "\r\n" : "")};
  return WriteAll(parts);
}

bool SocketExchange::ClientIsGone() {
  const bool is_gone = is_broken_ || socket_.PeerIsGone();
  if (is_gone) style_.keeps_alive = false;  // a further request of this client is of no use
  return is_gone;
}

void SocketExchange::Finish() {
  if (!is_streaming_ || is_broken_) return;
  const bool has_end = has_body_ && framing_ == BodyFraming::kChunked;
  std::array parts = {Part(has_end ? "0\r\n\r\n" : "")};
  is_whole_ = WriteAll(parts);
}

}  // namespace fathom
