// SocketExchange: an HttpExchange that writes to a socket.
#pragma once

#include <span>
#include <string_view>

#include "http/connection_table.h"
#include "http/http.h"
#include "http/http_response_text.h"
#include "http/socket.h"

namespace fathom {

// The properties of a request that shape its response.
struct AnswerStyle {
  bool is_http_1_0 = false;
  bool is_head = false;  // the header of the response only
  bool keeps_alive = true;
};

// One response. Borrows the socket and the table.
class SocketExchange : public HttpExchange {
 public:
  SocketExchange(Socket& socket, const ConnectionTable& table, AnswerStyle style)
      : socket_(socket), table_(table), style_(style) {}

  void Send(HttpResponse response) override;
  bool StartStream(HttpResponse head) override;
  bool Write(std::string_view piece) override;
  bool ClientIsGone() override;

  // Ends a stream as the client expects it.
  void Finish();
  bool has_started() const { return has_started_; }
  bool is_broken() const { return is_broken_; }
  // Whether the response is complete and the connection can take another request.
  bool is_reusable() const { return is_whole_ && style_.keeps_alive; }

 private:
  // Evaluated when the header is written: a draining connection takes no other request.
  Persistence persistence();
  bool WritePiece(std::string_view header, std::string_view piece);
  bool WriteAll(std::span<iovec> parts);

  Socket& socket_;
  const ConnectionTable& table_;
  AnswerStyle style_;
  BodyFraming framing_ = BodyFraming::kLength;  // of the stream
  bool has_started_ = false;
  bool is_streaming_ = false;
  bool has_body_ = true;
  bool is_broken_ = false;
  bool is_whole_ = false;
};

}  // namespace fathom
