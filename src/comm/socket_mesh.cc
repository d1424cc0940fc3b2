#include "comm/socket_mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "comm/channel_group.h"

namespace fathom::comm {
namespace {

constexpr int kAlarmMs = 50;  // how often a wait checks the abort flag

// Precedes the bytes of every message. Both ends run this program on machines of one kind.
struct Header {
  std::int64_t channel = 0;
  std::uint64_t n_bytes = 0;
};

// A message to send: its header, then its bytes.
struct Sending {
  Header header;
  std::span<const std::byte> bytes;
  std::size_t n_written = 0;  // bytes of header and payload together

  bool done() const { return n_written == sizeof(header) + bytes.size(); }
};

struct Receiving {
  std::span<std::byte> bytes;
  bool done = false;
};

// A message that arrived before a receive was started for it.
struct Early {
  std::int64_t channel = 0;
  std::vector<std::byte> bytes;
  bool complete = false;
};

struct Peer {
  Descriptor end;
  std::deque<Sending*> sending;
  std::map<std::int64_t, std::deque<Receiving*>> receiving;  // by channel
  std::deque<Early> early;
  // The message that is being read: into the memory of a Receiving, or of the newest Early.
  Header header;
  std::size_t n_header = 0;  // bytes of the header read so far
  std::span<std::byte> body;
  std::size_t n_body = 0;
  Receiving* target = nullptr;

  bool reads() const { return n_header == sizeof(header); }
  bool awaits() const {
    return std::any_of(receiving.begin(), receiving.end(),
                       [](const auto& queue) { return !queue.second.empty(); });
  }
};

// The state that all communicators over the same sockets share.
class Mesh {
 public:
  Mesh(MeshEnds ends, const AbortFlag& abort_flag) : abort_flag_(abort_flag), peers_(ends.size()) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      peers_[i].end = std::move(ends[i]);
    }
  }

  void Post(int to, Sending* sending) {
    Peer& peer = FindPeer(to);
    peer.sending.push_back(sending);
    ++traffic_.n_messages;
    traffic_.n_bytes += std::ssize(sending->bytes);
  }
  Status Post(int from, std::int64_t channel, Receiving* receiving) {
    FindPeer(from).receiving[channel].push_back(receiving);
    return TakeEarly(from, channel);
  }
  // Drops unfinished messages, because their memory is about to be freed.
  void Forget(const Sending* sending, const Receiving* receiving);
  // Sends and receives what is possible without waiting; waits up to wait_ms for the first byte.
  Status Progress(int wait_ms);
  Traffic traffic() const { return traffic_; }
  std::int64_t& next_channel() { return next_channel_; }

 private:
  Peer& FindPeer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Status TakeEarly(int from, std::int64_t channel);
  Status Write(int rank);
  Status Read(int rank);
  Status BeginMessage(int rank);
  Status EndMessage(int rank);
  Status Break(Error error) {
    broken_ = std::move(error);
    return Unexpected(*broken_);
  }
  // Once the abort flag is raised, ranks end because of it.
  Status BreakLink(int rank) {
    if (Status fine = abort_flag_.Check(); !fine) return Break(fine.error());
    return Break({ErrorCode::kUnavailable,
                  fmt::format("rank {} has closed its connection: it has ended", rank)});
  }
  Status BreakOrder(int rank, std::uint64_t found, std::size_t expected) {
    return Break({ErrorCode::kInvalidData,
                  fmt::format("rank {} sent a message of {} bytes where {} were expected: the "
                              "ranks do not run the same command on the same files",
                              rank, found, expected)});
  }

  const AbortFlag& abort_flag_;
  std::vector<Peer> peers_;
  std::optional<Error> broken_;
  Traffic traffic_;
  std::int64_t next_channel_ = 1;
  std::vector<pollfd> polled_;
  std::vector<int> polled_ranks_;
};

void Mesh::Forget(const Sending* sending, const Receiving* receiving) {
  bool was_waited_for = false;
  for (Peer& peer : peers_) {
    was_waited_for |= std::erase(peer.sending, sending) > 0;
    for (auto& [channel, queue] : peer.receiving) {
      was_waited_for |= std::erase(queue, receiving) > 0;
    }
    was_waited_for |= receiving != nullptr && peer.target == receiving;
  }
  if (was_waited_for && !broken_) {
    broken_ = Error{ErrorCode::kUnavailable, "an exchange between ranks was given up"};
  }
}

Status Mesh::TakeEarly(int from, std::int64_t channel) {
  Peer& peer = FindPeer(from);
  std::deque<Receiving*>& queue = peer.receiving[channel];
  while (!queue.empty()) {
    const auto first = std::find_if(peer.early.begin(), peer.early.end(),
                                    [&](const Early& early) { return early.channel == channel; });
    if (first == peer.early.end() || !first->complete) return {};
    if (first->bytes.size() != queue.front()->bytes.size()) {
      return BreakOrder(from, first->bytes.size(), queue.front()->bytes.size());
    }
    std::copy(first->bytes.begin(), first->bytes.end(), queue.front()->bytes.begin());
    queue.front()->done = true;
    queue.pop_front();
    peer.early.erase(first);
  }
  return {};
}

Status Mesh::Write(int rank) {
  Peer& peer = FindPeer(rank);
  while (!peer.sending.empty()) {
    Sending& sending = *peer.sending.front();
    const std::size_t n_header = std::min(sending.n_written, sizeof(Header));
    const std::size_t n_bytes = sending.n_written - n_header;
    iovec parts[] = {
        {reinterpret_cast<std::byte*>(&sending.header) + n_header, sizeof(Header) - n_header},
        {const_cast<std::byte*>(sending.bytes.data()) + n_bytes, sending.bytes.size() - n_bytes}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t written = ::sendmsg(peer.end.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Status() : BreakLink(rank);
    sending.n_written += static_cast<std::size_t>(written);
    if (sending.done()) {
      peer.sending.pop_front();
    }
  }
  return {};
}

// Finds the destination of the bytes after a complete header.
Status Mesh::BeginMessage(int rank) {
  Peer& peer = FindPeer(rank);
  const std::int64_t channel = peer.header.channel;
  std::deque<Receiving*>& queue = peer.receiving[channel];
  const bool others_first = std::any_of(peer.early.begin(), peer.early.end(),
                                        [&](const Early& e) { return e.channel == channel; });
  peer.n_body = 0;
  if (queue.empty() || others_first) {
    peer.early.push_back({.channel = channel});
    peer.early.back().bytes.resize(peer.header.n_bytes);
    peer.body = peer.early.back().bytes;
    peer.target = nullptr;
    return {};
  }
  peer.target = queue.front();
  if (peer.header.n_bytes != peer.target->bytes.size()) {
    return BreakOrder(rank, peer.header.n_bytes, peer.target->bytes.size());
  }
  queue.pop_front();
  peer.body = peer.target->bytes;
  return {};
}

Status Mesh::EndMessage(int rank) {
  Peer& peer = FindPeer(rank);
  peer.n_header = 0;
  if (peer.target != nullptr) {
    std::exchange(peer.target, nullptr)->done = true;
    return {};
  }
  peer.early.back().complete = true;
  return TakeEarly(rank, peer.header.channel);
}

Status Mesh::Read(int rank) {
  Peer& peer = FindPeer(rank);
  for (;;) {
    const bool in_header = peer.n_header < sizeof(Header);
    std::byte* const to = in_header ? reinterpret_cast<std::byte*>(&peer.header) + peer.n_header
                                    : peer.body.data() + peer.n_body;
    const std::size_t room =
        in_header ? sizeof(Header) - peer.n_header : peer.body.size() - peer.n_body;
    const ssize_t n_read = room == 0 ? 0 : ::recv(peer.end.get(), to, room, MSG_DONTWAIT);
    if (n_read < 0 && errno == EINTR) continue;
    if (n_read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n_read < 0 || (n_read == 0 && room > 0)) return BreakLink(rank);
    (in_header ? peer.n_header : peer.n_body) += static_cast<std::size_t>(n_read);
    if (in_header && peer.reads()) {
      if (Status begun = BeginMessage(rank); !begun) return begun;
    }
    if (peer.reads() && peer.n_body == peer.body.size()) {
      if (Status ended = EndMessage(rank); !ended) return ended;
      if (!peer.awaits()) {
        return {};  // the next bytes belong to a later message
      }
    }
  }
}

Status Mesh::Progress(int wait_ms) {
  if (broken_) return Unexpected(*broken_);
  if (Status fine = abort_flag_.Check(); !fine) return Break(fine.error());
  polled_.clear();
  polled_ranks_.clear();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    const int events = (peer.sending.empty() ? 0 : POLLOUT) |
                       (peer.awaits() || peer.target != nullptr ? POLLIN : 0);
    if (events != 0) {
      polled_.push_back({peer.end.get(), static_cast<short>(events), 0});
      polled_ranks_.push_back(static_cast<int>(i));
    }
  }
  if (polled_.empty() || ::poll(polled_.data(), polled_.size(), wait_ms) <= 0) return {};
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    const int rank = polled_ranks_[i];
    const short ready = polled_[i].revents;
    // Bytes that a peer sent before it ended are still read.
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && (polled_[i].events & POLLIN) != 0) {
      if (Status read = Read(rank); !read) return read;
    }
    if ((ready & (POLLOUT | POLLHUP | POLLERR)) != 0 && (polled_[i].events & POLLOUT) != 0) {
      if (Status written = Write(rank); !written) return written;
    }
  }
  return {};
}

class SocketExchange : public Exchange {
 public:
  SocketExchange(std::shared_ptr<Mesh> mesh, std::size_t n_outgoing, std::size_t n_incoming)
      : mesh_(std::move(mesh)), sending_(n_outgoing), receiving_(n_incoming) {}
  ~SocketExchange() override {
    for (const Sending& sending : sending_) {
      if (!sending.done()) {
        mesh_->Forget(&sending, nullptr);
      }
    }
    for (const Receiving& receiving : receiving_) {
      if (!receiving.done) {
        mesh_->Forget(nullptr, &receiving);
      }
    }
  }

  Result<bool> Poll() override {
    if (!IsDone()) {
      if (Status moved = mesh_->Progress(0); !moved) return Unexpected(moved.error());
    }
    return IsDone();
  }
  Status WaitForAny() override {
    while (!IsDone() && Arrived() == n_told_) {
      if (Status moved = mesh_->Progress(kAlarmMs); !moved) return moved;
    }
    n_told_ = Arrived();
    return {};
  }
  Status Wait() override {
    while (!IsDone()) {
      if (Status moved = mesh_->Progress(kAlarmMs); !moved) return moved;
    }
    return {};
  }
  bool HasArrived(std::size_t i) const override { return receiving_[i].done; }

  std::vector<Sending>& sending() { return sending_; }
  std::vector<Receiving>& receiving() { return receiving_; }

 private:
  std::ptrdiff_t Arrived() const {
    return std::count_if(receiving_.begin(), receiving_.end(),
                         [](const Receiving& r) { return r.done; });
  }
  bool IsDone() const {
    return std::all_of(sending_.begin(), sending_.end(),
                       [](const Sending& s) { return s.done(); }) &&
           Arrived() == std::ssize(receiving_);
  }

  std::shared_ptr<Mesh> mesh_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  std::ptrdiff_t n_told_ = 0;  // messages that had arrived when WaitForAny returned last
};

class SocketCommunicator : public Communicator {
 public:
  SocketCommunicator(std::shared_ptr<Mesh> mesh, ChannelGroup group)
      : mesh_(std::move(mesh)), group_(std::move(group)) {}

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  Traffic traffic() const override { return mesh_->traffic(); }

  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    auto exchange = std::make_unique<SocketExchange>(mesh_, outgoing.size(), incoming.size());
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      Receiving& receiving = exchange->receiving()[i];
      receiving.bytes = incoming[i].bytes;
      if (Status posted =
              mesh_->Post(group_.TransportRank(incoming[i].from), group_.channel, &receiving);
          !posted) {
        return Unexpected(posted.error());
      }
    }
    for (std::size_t i = 0; i < outgoing.size(); ++i) {
      Sending& sending = exchange->sending()[i];
      sending.bytes = outgoing[i].bytes;
      sending.header = {group_.channel, outgoing[i].bytes.size()};
      mesh_->Post(group_.TransportRank(outgoing[i].to), &sending);
    }
    if (Result<bool> begun = exchange->Poll(); !begun) return Unexpected(begun.error());
    return exchange;
  }

  Result<std::unique_ptr<Communicator>> Split(int color, int key) override {
    Result<ChannelGroup> part = SplitGroup(*this, group_, color, key, mesh_->next_channel());
    if (!part) return Unexpected(part.error());
    return std::make_unique<SocketCommunicator>(mesh_, *std::move(part));
  }

 private:
  std::shared_ptr<Mesh> mesh_;
  ChannelGroup group_;
};

}  // namespace

Result<std::vector<MeshEnds>> MakeSocketMesh(int n_ranks) {
  const auto n = static_cast<std::size_t>(n_ranks);
  std::vector<MeshEnds> ends(n);
  for (MeshEnds& of_rank : ends) {
    of_rank.resize(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      int pair[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return MakeError(ErrorCode::kResourceExhausted, "cannot join ranks {} and {}: {}", i, j,
                         std::system_category().message(errno));
      }
      ends[i][j] = Descriptor(pair[0]);
      ends[j][i] = Descriptor(pair[1]);
    }
  }
  return ends;
}

std::unique_ptr<Communicator> MakeSocketCommunicator(int rank, MeshEnds ends,
                                                     const AbortFlag& abort_flag) {
  ChannelGroup group = WholeGroup(rank, static_cast<int>(ends.size()));
  return std::make_unique<SocketCommunicator>(std::make_shared<Mesh>(std::move(ends), abort_flag),
                                              std::move(group));
}

}  // namespace fathom::comm
