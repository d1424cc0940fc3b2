#include "http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "http/http_response_text.h"

namespace fathom::http {
namespace {

using std::chrono::milliseconds;
using State = HttpRequestParser::State;

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
// Limits the time that a client may take to read the last response, and the bytes that it may send
// meanwhile.
constexpr std::chrono::seconds kLingerTime(2);
constexpr std::size_t kLingerBytes = std::size_t{16} << 20;

Deadline In(milliseconds time) { return std::chrono::steady_clock::now() + time; }

// Received bytes that are not consumed yet.
class Input {
 public:
  std::string_view bytes() const { return std::string_view(buffer_).substr(begin_); }
  void Consume(std::size_t n_bytes) {
    begin_ += n_bytes;
    if (begin_ < buffer_.size()) return;
    buffer_.clear();
    begin_ = 0;
  }
  Socket::Outcome Fill(Socket& socket, Deadline deadline) {
    buffer_.erase(0, std::exchange(begin_, 0));
    const std::size_t n_old = buffer_.size();
    buffer_.resize(n_old + kReadBytes);
    const Socket::Received received = socket.ReadSome(std::span(buffer_).subspan(n_old), deadline);
    buffer_.resize(n_old + received.n_bytes);
    return received.outcome;
  }
  // Frees the memory: a waiting connection should cost little more than its thread.
  void Release() {
    if (bytes().empty()) std::string().swap(buffer_);
  }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

// An iovec serves both directions and is not const; sendmsg only reads.
iovec Part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

// The properties of a request that shape its response.
struct AnswerStyle {
  bool is_http_1_0 = false;
  bool is_head = false;  // the header of the response only
  bool keeps_alive = true;
};

// One response of the connection `id`, written to a socket. Borrows the socket and the table.
class SocketExchange : public HttpExchange {
 public:
  SocketExchange(Socket& socket, ConnectionTable& table, ConnectionTable::Id id, AnswerStyle style)
      : socket_(socket), table_(table), id_(id), style_(style) {}

  void Send(HttpResponse response) override {
    Check(!has_started_, "a request is answered twice");
    has_started_ = true;
    const std::string header =
        ResponseHeader(response, BodyFraming::kLength, persistence(), std::time(nullptr));
    const bool has_body = !style_.is_head && !HasNoBody(response.status);
    // The work is done. Clients that do not read must not block the work of others.
    table_.BeginLingering(id_);
    std::array parts = {Part(header), Part(has_body ? response.body : std::string_view())};
    is_whole_ = WriteAll(parts);
  }

  bool StartStream(HttpResponse head) override {
    Check(!has_started_, "a request is answered twice");
    has_started_ = true;
    is_streaming_ = true;
    has_body_ = !style_.is_head && !HasNoBody(head.status);
    framing_ = style_.is_http_1_0 ? BodyFraming::kUntilClose : BodyFraming::kChunked;
    if (style_.is_http_1_0) style_.keeps_alive = false;
    const std::string header = ResponseHeader(head, framing_, persistence(), std::time(nullptr));
    return WritePiece(header, head.body);
  }

  bool Write(std::string_view piece) override {
    Check(is_streaming_, "a piece is written to no stream");
    return WritePiece("", piece);
  }

  bool ClientIsGone() override {
    const bool is_gone = is_broken_ || socket_.PeerIsGone();
    if (is_gone) style_.keeps_alive = false;  // a further request of this client is useless
    return is_gone;
  }

  void DropSlowClient() override { socket_.ForbidWait(wait_); }

  // Ends a stream in the client's format.
  void Finish() {
    if (!is_streaming_ || is_broken_) return;
    const bool has_end = has_body_ && framing_ == BodyFraming::kChunked;
    std::array parts = {Part(has_end ? "0\r\n\r\n" : "")};
    is_whole_ = WriteAll(parts);
  }

  bool has_started() const { return has_started_; }
  bool is_broken() const { return is_broken_; }
  // Returns whether the response is complete and the connection can take another request.
  bool is_reusable() const { return is_whole_ && style_.keeps_alive; }

 private:
  // Evaluated when the header is written: a draining connection accepts no other request.
  Persistence persistence() {
    style_.keeps_alive = style_.keeps_alive && !table_.is_draining();
    if (!style_.keeps_alive) return Persistence::kClose;
    return style_.is_http_1_0 ? Persistence::kKeepHttp1_0 : Persistence::kKeep;
  }

  bool WritePiece(std::string_view header, std::string_view piece) {
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

  bool WriteAll(std::span<iovec> parts) {
    is_broken_ = is_broken_ || !socket_.WriteAll(parts, wait_);
    return !is_broken_;
  }

  Socket& socket_;
  ConnectionTable& table_;
  const ConnectionTable::Id id_;
  WriteWait wait_;
  AnswerStyle style_;
  BodyFraming framing_ = BodyFraming::kLength;  // framing of the stream
  bool has_started_ = false;
  bool is_streaming_ = false;
  bool has_body_ = true;
  bool is_broken_ = false;
  bool is_whole_ = false;
};

// Counts a running handler.
class Handling {
 public:
  explicit Handling(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Handling() { --count_; }
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

class Connection {
 public:
  Connection(HttpConnections& shared, ConnectionTable::Id id, Socket& socket,
             const std::string& peer)
      : shared_(shared), limits_(shared.options.limits), id_(id), socket_(socket), peer_(peer) {}

  void Serve() {
    while (ServeOne()) {
    }
    if (!has_answered_) return;
    shared_.table.BeginLingering(id_);
    input_.Release();
    socket_.Linger(In(kLingerTime), kLingerBytes);
  }

 private:
  // Handles one request. Returns false if the connection ends.
  bool ServeOne() {
    if (!shared_.table.BeginWaiting(id_)) return false;
    has_answered_ = false;
    if (!WaitForRequest()) return false;
    HttpRequestParser parser(limits_, shared_.bodies);
    ReadPart(parser, State::kHeader, In(limits_.header_time));
    parser.request().peer = peer_;
    const bool is_vital = shared_.options.is_vital && shared_.options.is_vital(parser.request());
    if (parser.state() == State::kBody && !shared_.table.HasRoom(is_vital)) {
      parser.Refuse({503, std::string(kTooManyConnections)});
    }
    if (parser.state() == State::kBody) {
      if (IsAnsweredByHead(parser)) return false;
      ReadBody(parser);
    }
    return Answer(parser, is_vital);
  }

  // Answers the whole request, or its refusal. Returns false if the connection ends.
  bool Answer(HttpRequestParser& parser, bool is_vital) {
    if (parser.state() == State::kComplete) {
      const ConnectionTable::Admission admission = shared_.table.BeginWork(id_, is_vital);
      if (admission == ConnectionTable::Admission::kClosed) return false;
      if (admission == ConnectionTable::Admission::kFull) {
        parser.Refuse({503, std::string(kTooManyConnections)});
      }
    }
    SocketExchange exchange(socket_, shared_.table, id_, MakeStyle(parser));
    if (parser.state() == State::kComplete) {
      Handle(parser.request(), exchange);
    } else {
      Refuse(parser.request(), parser.refusal(), exchange);
    }
    has_answered_ = !exchange.is_broken();
    return exchange.is_reusable();
  }

  // The following body cannot be distinguished from another request, so the connection ends.
  bool IsAnsweredByHead(const HttpRequestParser& parser) {
    if (!shared_.options.answer_head) return false;
    SocketExchange exchange(socket_, shared_.table, id_, MakeStyle(parser));
    bool is_answered = false;
    const bool has_ended =
        Run([&] { is_answered = shared_.options.answer_head(parser.request(), exchange); });
    if (!has_ended && !exchange.has_started()) Fail(parser.request(), exchange);
    has_answered_ = exchange.has_started() && !exchange.is_broken();
    return is_answered || !has_ended;
  }

  // Waits for the first byte of a request.
  bool WaitForRequest() {
    const Deadline deadline = In(limits_.idle_time);
    for (;;) {
      // Some clients send a line break after a body that does not belong to it.
      while (input_.bytes().starts_with("\r\n")) input_.Consume(2);
      if (!input_.bytes().empty() && input_.bytes() != "\r") break;
      if (input_.bytes().empty()) input_.Release();
      if (!socket_.WaitForInput(deadline)) return false;
      if (input_.Fill(socket_, deadline) != Socket::Outcome::kBytes) return false;
    }
    return shared_.table.BeginReading(id_);
  }

  // Feeds the parser until `part` is over or the body has the given number of bytes.
  void ReadPart(HttpRequestParser& parser, State part, Deadline deadline,
                std::size_t n_body_bytes = std::numeric_limits<std::size_t>::max()) {
    while (parser.state() == part) {
      input_.Consume(parser.Feed(input_.bytes()));
      if (parser.state() != part || parser.n_body_bytes() >= n_body_bytes) return;
      const Socket::Outcome outcome = input_.Fill(socket_, deadline);
      if (part == State::kBody) shared_.table.MarkProgress(id_);
      if (outcome == Socket::Outcome::kEnd) parser.Refuse({400, "The request ends too early."});
      if (outcome == Socket::Outcome::kTooLate) parser.Refuse({408, "The request takes too long."});
    }
  }

  void ReadBody(HttpRequestParser& parser) {
    if (parser.expects_continue() && !parser.is_http_1_0() && input_.bytes().empty()) {
      std::string text = "HTTP/1.1 100 Continue\r\n\r\n";
      iovec part = {text.data(), text.size()};
      WriteWait wait;
      static_cast<void>(socket_.WriteAll({&part, 1}, wait));  // a failure appears at the next read
    }
    const Deadline end = In(limits_.body_time);
    while (parser.state() == State::kBody) {
      const std::size_t n_bytes = parser.n_body_bytes();
      const Deadline step_end = std::min(end, In(limits_.body_step_time));
      ReadPart(parser, State::kBody, step_end, n_bytes + n_bytes / 8 + 1);
    }
  }

  static AnswerStyle MakeStyle(const HttpRequestParser& parser) {
    const bool is_whole = parser.state() == State::kComplete;
    return {.is_http_1_0 = parser.is_http_1_0(),
            .is_head = parser.request().method == "HEAD",
            .keeps_alive = is_whole && parser.keeps_alive()};
  }

  void Refuse(const HttpRequest& request, const HttpRefusal& refusal, SocketExchange& exchange) {
    if (IsLimit(refusal.status)) ++shared_.n_refused;
    exchange.Send(RefusalResponse(shared_.options.answer_refusal, request, refusal));
  }

  void Handle(const HttpRequest& request, SocketExchange& exchange) {
    const bool has_ended = Run([&] { shared_.handler(request, exchange); });
    if (!exchange.has_started() && has_ended && exchange.ClientIsGone()) {
      // A client that has only closed its sending half can still read this.
      Refuse(request, {400, std::string(kClientIsGone)}, exchange);
    } else if (!exchange.has_started()) {
      Fail(request, exchange);
    } else if (has_ended) {
      exchange.Finish();  // without it the client sees that the stream was cut off
    }
  }

  // Runs a function of the server's user. Returns false if it threw.
  template <class Function>
  bool Run(const Function& function) {
    const Handling handling(shared_.n_handling);
    try {
      function();
      return true;
    } catch (...) {
      return false;
    }
  }

  void Fail(const HttpRequest& request, SocketExchange& exchange) {
    Refuse(request, {500, "Internal error."}, exchange);
  }

  static bool IsLimit(int status) {
    return status == 408 || status == 413 || status == 431 || status == 503;
  }

  HttpConnections& shared_;
  const HttpLimits& limits_;
  const ConnectionTable::Id id_;
  Socket& socket_;
  const std::string& peer_;
  Input input_;
  bool has_answered_ = false;  // and the client may not have read it yet
};

}  // namespace

HttpConnections::HttpConnections(HttpServerOptions with_options, HttpHandler with_handler)
    : options(std::move(with_options)),
      handler(std::move(with_handler)),
      table(options.limits.connections, options.limits.reserve),
      bodies(options.limits.all_body_bytes) {}

HttpResponse RefusalResponse(const HttpRefusalHandler& answer, const HttpRequest& request,
                             const HttpRefusal& refusal) {
  if (answer) return answer(request, refusal);
  HttpResponse response = {.status = refusal.status,
                           .content_type = "text/plain; charset=utf-8",
                           .body = refusal.message + "\n"};
  if (refusal.status == 503) response.fields.emplace_back("Retry-After", "1");
  return response;
}

void ServeConnection(HttpConnections& shared, ConnectionTable::Id id, Socket socket,
                     const std::string& peer) noexcept {
  try {
    Connection(shared, id, socket, peer).Serve();
  } catch (...) {
    // Memory is exhausted, or an error body failed: only this client is lost.
  }
  shared.table.Remove(id);
}

}  // namespace fathom::http
