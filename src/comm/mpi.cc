// The module fathom_mpi: ranks that mpirun (or srun) has started, on one machine or many. The only
// file that includes MPI; opened at run time (comm/mpi_module.h).
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/channel_group.h"
#include "comm/mpi_module.h"

namespace fathom::comm {
namespace {

// One message of MPI counts its bytes as int.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;

Status Told(int result, std::string_view what) {
  if (result == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  return MakeError(ErrorCode::kUnavailable, "MPI: {}: {}", what,
                   std::string_view(text.data(), static_cast<std::size_t>(length)));
}

// Initialises MPI and finalises it, once for all communicators of the process.
class World {
 public:
  explicit World(const AbortFlag& abort_flag) : abort_flag_(abort_flag) {}
  // After a failure, ranks that wait for each other in MPI_Finalize would never return.
  ~World() { has_failed_ || abort_flag_.raised() ? MPI_Abort(MPI_COMM_WORLD, 1) : MPI_Finalize(); }

  const AbortFlag& abort_flag() const { return abort_flag_; }
  Status Failed(Status status) {
    has_failed_ = true;
    return status;
  }
  Traffic traffic;
  std::int64_t next_channel = 1;

 private:
  const AbortFlag& abort_flag_;
  bool has_failed_ = false;
};

class MpiExchange : public Exchange {
 public:
  MpiExchange(std::shared_ptr<World> world, std::size_t n_incoming)
      : world_(std::move(world)), n_left_(n_incoming) {}
  ~MpiExchange() override {
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  }

  // The channel of the group is the tag of its messages.
  Status Begin(const ChannelGroup& group, std::span<const Outgoing> outgoing,
               std::span<const Incoming> incoming) {
    const int tag = static_cast<int>(group.channel);
    Status begun;
    const auto add = [&](int message, int other, std::size_t size, const auto& start) {
      for (std::size_t first = 0; begun && (first < size || (size == 0 && first == 0));
           first += kPieceBytes) {
        const int count = static_cast<int>(std::min(kPieceBytes, size - first));
        requests_.push_back(MPI_REQUEST_NULL);
        pieces_.push_back({message, other, count});
        begun = Told(start(first, count, &requests_.back()), "starting a message");
        if (message >= 0) {
          ++n_left_[static_cast<std::size_t>(message)];
        }
      }
    };
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      const Incoming& in = incoming[i];
      add(static_cast<int>(i), in.from, in.bytes.size(),
          [&](std::size_t first, int count, MPI_Request* request) {
            return MPI_Irecv(in.bytes.data() + first, count, MPI_BYTE, group.TransportRank(in.from),
                             tag, MPI_COMM_WORLD, request);
          });
    }
    for (const Outgoing& out : outgoing) {
      add(-1, out.to, out.bytes.size(), [&](std::size_t first, int count, MPI_Request* request) {
        return MPI_Isend(out.bytes.data() + first, count, MPI_BYTE, group.TransportRank(out.to),
                         tag, MPI_COMM_WORLD, request);
      });
      ++world_->traffic.n_messages;
      world_->traffic.n_bytes += std::ssize(out.bytes);
    }
    n_open_ = requests_.size();
    done_.resize(requests_.size());
    statuses_.resize(requests_.size());
    return begun ? begun : world_->Failed(begun);
  }

  Result<bool> Poll() override {
    if (Status moved = Progress(); !moved) return Unexpected(moved.error());
    return n_open_ == 0;
  }
  Status WaitForAny() override {
    const Status waited = WaitUntil([&] { return n_open_ == 0 || Arrived() > n_told_; });
    n_told_ = Arrived();
    return waited;
  }
  Status Wait() override {
    return WaitUntil([&] { return n_open_ == 0; });
  }
  bool HasArrived(std::size_t i) const override { return n_left_[i] == 0; }

 private:
  struct PieceOfMessage {
    int message = -1;  // index of the incoming message; -1: an outgoing one
    int other = 0;
    int count = 0;
  };

  std::ptrdiff_t Arrived() const { return std::count(n_left_.begin(), n_left_.end(), 0); }

  // Polls, less often after a while: a message within a machine takes microseconds, and a slow
  // message can wait.
  template <class Condition>
  Status WaitUntil(const Condition& is_met) {
    constexpr int kEagerTurns = 2000;
    for (int turn = 0;; ++turn) {
      if (Status moved = Progress(); !moved) return moved;
      if (is_met()) return {};
      if (turn < kEagerTurns) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  Status Progress() {
    if (Status fine = world_->abort_flag().Check(); !fine) return world_->Failed(fine);
    int n_done = 0;
    const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &n_done,
                                    done_.data(), statuses_.data());
    for (int i = 0; n_done != MPI_UNDEFINED && i < n_done; ++i) {
      const auto at = static_cast<std::size_t>(done_[static_cast<std::size_t>(i)]);
      const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
      const PieceOfMessage& piece = pieces_[at];
      if (result == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
        return world_->Failed(
            Told(status.MPI_ERROR, fmt::format("a message of rank {}", piece.other)));
      }
      --n_open_;
      if (piece.message < 0) continue;
      --n_left_[static_cast<std::size_t>(piece.message)];
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      if (count != piece.count) {
        return world_->Failed(MakeError(
            ErrorCode::kInvalidData,
            "rank {} sent a message of {} bytes where {} were expected: the ranks do not run the "
            "same command on the same files",
            piece.other, count, piece.count));
      }
    }
    if (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS) {
      return world_->Failed(Told(result, "waiting for messages"));
    }
    return {};
  }

  std::shared_ptr<World> world_;
  std::vector<MPI_Request> requests_;
  std::vector<PieceOfMessage> pieces_;  // pieces of requests_
  std::vector<int> n_left_;             // pieces left of each incoming message
  std::size_t n_open_ = 0;
  std::ptrdiff_t n_told_ = 0;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<World> world, ChannelGroup group)
      : world_(std::move(world)), group_(std::move(group)) {}

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  Traffic traffic() const override { return world_->traffic; }

  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    auto exchange = std::make_unique<MpiExchange>(world_, incoming.size());
    if (Status begun = exchange->Begin(group_, outgoing, incoming); !begun) {
      return Unexpected(begun.error());
    }
    return exchange;
  }

  // MPI_Comm_split is not used: ranks that wait in it for a rank that hangs could not be ended.
  Result<std::unique_ptr<Communicator>> Split(int color, int key) override {
    Result<ChannelGroup> part = SplitGroup(*this, group_, color, key, world_->next_channel);
    if (!part) return Unexpected(part.error());
    return std::make_unique<MpiCommunicator>(world_, *std::move(part));
  }

 private:
  std::shared_ptr<World> world_;
  ChannelGroup group_;
};

}  // namespace
}  // namespace fathom::comm

extern "C" __attribute__((visibility("default"))) const char fathom_module_interface[] =
    FATHOM_MODULE_INTERFACE;

extern "C" __attribute__((visibility("default"))) fathom::comm::Communicator* fathom_make_mpi(
    const fathom::comm::AbortFlag* abort_flag, std::string* error) {
  int provided = 0;
  const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (fathom::Status started = fathom::comm::Told(result, "starting"); !started) {
    *error = started.error().message;
    return nullptr;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    *error = "MPI: expected one that several threads may use in turn (MPI_THREAD_SERIALIZED)";
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return new fathom::comm::MpiCommunicator(std::make_shared<fathom::comm::World>(*abort_flag),
                                           fathom::comm::WholeGroup(rank, size));
}
