#include "http/http.h"

#include <ctime>
#include <deque>
#include <optional>
#include <thread>

#include "base/check.h"
#include "http/connection_table.h"
#include "http/http_connection.h"
#include "http/http_response_text.h"
#include "http/listener.h"
#include "http/socket.h"
#include "http/thread_group.h"

namespace fathom::http {
namespace {

using std::chrono::milliseconds;

// Connections that were refused without a thread, until their clients have read the reason. Used
// only by the accepting thread.
class RefusedSockets {
 public:
  void Add(Socket socket) {
    if (sockets_.size() >= kMost) CloseFirst();
    sockets_.push_back({std::move(socket), std::chrono::steady_clock::now() + kTime});
  }
  // The longest wait of Accept; -1: no limit.
  int Timeout() const { return sockets_.empty() ? -1 : static_cast<int>(kTime.count()); }
  void CloseExpired() {
    const auto now = std::chrono::steady_clock::now();
    while (!sockets_.empty() && sockets_.front().until <= now) CloseFirst();
  }
  void CloseAll() {
    while (!sockets_.empty()) CloseFirst();
  }

 private:
  static constexpr milliseconds kTime{200};
  static constexpr std::size_t kMost = 64;

  struct Refused {
    Socket socket;
    Deadline until;
  };

  void CloseFirst() {
    sockets_.front().socket.DiscardInput();
    sockets_.pop_front();
  }

  std::deque<Refused> sockets_;
};

class Server : public HttpServer {
 public:
  Server(Listener listener, HttpServerOptions options, HttpHandler handler)
      : port_(listener.port()),
        is_loopback_(listener.is_loopback()),
        listener_(std::move(listener)),
        shared_(std::move(options), std::move(handler)) {}
  ~Server() override { Stop(); }

  bool Start() {
    return accepting_.Start([this] { AcceptAll(); });
  }

  int port() const override { return port_; }
  bool is_loopback() const override { return is_loopback_; }

  HttpCounts counts() const override {
    const ConnectionTable::Counts table = shared_.table.counts();
    return {.connections = table.open,
            .waiting = table.waiting,
            .handling = shared_.n_handling,
            .body_bytes = shared_.bodies.taken(),
            .accepted = shared_.n_accepted,
            .refused = shared_.n_refused + table.evicted};
  }

  void Drain() override {
    listener_.Wake();
    shared_.table.Drain();
    accepting_.Wait();
  }

  bool WaitFor(milliseconds time) override { return shared_.table.WaitUntilEmpty(time); }

  void Stop() override {
    listener_.Wake();
    shared_.table.Close();
    accepting_.Wait();
    connections_.Wait();
  }

 private:
  void AcceptAll() {
    RefusedSockets refused;
    while (!listener_.is_awake()) {
      std::optional<Listener::Arrival> arrival = listener_.Accept(refused.Timeout());
      refused.CloseExpired();
      if (!arrival) continue;
      if (arrival->is_exhausted) {
        MakeRoom();
        continue;
      }
      ++shared_.n_accepted;
      std::optional<Socket> rejected = Admit(std::move(*arrival));
      if (rejected) refused.Add(std::move(*rejected));
    }
    listener_.Close();
    refused.CloseAll();
  }

  // The pending connection stays ready to be accepted, so Accept would return immediately.
  void MakeRoom() {
    constexpr milliseconds kPause(20);
    static_cast<void>(shared_.table.EvictOne());
    std::this_thread::sleep_for(kPause);
  }

  // Gives the connection a thread, or answers that none is available.
  std::optional<Socket> Admit(Listener::Arrival arrival) {
    const int fd = arrival.descriptor.get();
    const std::optional<ConnectionTable::Id> id = shared_.table.Add(fd);
    if (!id) return Refuse(std::move(arrival.descriptor));
    const bool is_started = connections_.Start([this, id = *id, fd, peer = arrival.peer] {
      ServeConnection(shared_, id, MakeSocket(Descriptor(fd)), peer);
    });
    if (is_started) {
      static_cast<void>(arrival.descriptor.Release());
      return std::nullopt;
    }
    shared_.table.Remove(*id);
    return Refuse(std::move(arrival.descriptor));
  }

  std::optional<Socket> Refuse(Descriptor descriptor) {
    if (shared_.table.is_draining()) return std::nullopt;
    ++shared_.n_refused;
    Socket socket = MakeSocket(std::move(descriptor));
    socket.WriteLast(BusyText());
    return socket;
  }

  Socket MakeSocket(Descriptor descriptor) const {
    return Socket(std::move(descriptor), shared_.options.limits.write_time);
  }

  std::string BusyText() const {
    const HttpResponse response = RefusalResponse(shared_.options.answer_refusal, {},
                                                  {503, std::string(kTooManyConnections)});
    return ResponseHeader(response, BodyFraming::kLength, Persistence::kClose, std::time(nullptr)) +
           response.body;
  }

  const int port_;
  const bool is_loopback_;
  Listener listener_;  // Wake: any thread; all else: the accepting thread
  HttpConnections shared_;
  ThreadGroup connections_;
  ThreadGroup accepting_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(HttpServerOptions options,
                                                       HttpHandler handler) {
  Check(handler != nullptr, "a server without a handler");
  Result<Listener> listener = Listener::Open(options.host, options.port);
  if (!listener) return Unexpected(listener.error());
  auto server =
      std::make_unique<Server>(std::move(*listener), std::move(options), std::move(handler));
  if (!server->Start()) {
    return MakeError(ErrorCode::kResourceExhausted, "cannot start a thread for connections");
  }
  return server;
}

}  // namespace fathom::http
