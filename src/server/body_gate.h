// BodyGate: limits the memory of the requests that are being prepared.
//
// Until the requests of a body are ready for the engine, the server needs a multiple of its bytes:
// about 8 for JSON values, and up to 24 to encode a long text as tokens. Prepared requests need
// little more than the body itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "base/stop_check.h"

namespace fathom::server {

// Any thread. Must outlive its passes.
class BodyGate {
 private:
  struct Leave {
    std::size_t n_bytes = 0;
    void operator()(BodyGate* gate) const { gate->GiveBack(n_bytes); }
  };

 public:
  // Reserves room for a body until the pass is destroyed.
  using Pass = std::unique_ptr<BodyGate, Leave>;

  // `limit`: bytes of all bodies inside; a longer body is inside alone.
  explicit BodyGate(std::size_t limit) : limit_(limit) {}

  // Waits for room, in the order of arrival. Returns nullptr if `stop` returned true before there
  // was room.
  Pass Enter(std::size_t n_bytes, const StopFunction& stop);

 private:
  void GiveBack(std::size_t n_bytes);

  const std::size_t limit_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t n_taken_ = 0;
  std::uint64_t next_number_ = 0;
  std::set<std::uint64_t> waiting_;
  std::condition_variable changed_;
};

}  // namespace fathom::server
