// Listener: the sockets on which new connections arrive.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom::http {

// Owns its sockets. Accept on one thread; Wake from any thread; Close on the thread of Accept or
// after it has ended.
class Listener {
 public:
  struct Arrival {
    Descriptor descriptor;      // non-blocking; none if `is_exhausted`
    std::string peer;           // the address, without the port
    bool is_exhausted = false;  // the system has no descriptors or memory for another connection
  };

  // Listens on every address of `host`, all with the same port. Port 0: any free port. Errors: the
  // host is unknown (kNotFound), an address is in use or does not belong to this machine (kIo).
  static Result<Listener> Open(const std::string& host, int port);

  int port() const { return port_; }
  // Returns whether only this machine can reach all addresses.
  bool is_loopback() const { return is_loopback_; }
  // Returns the next connection; none after Wake or after `milliseconds` (-1: no limit).
  std::optional<Arrival> Accept(int milliseconds);
  // Ends Accept permanently.
  void Wake();
  bool is_awake() const { return is_awake_; }
  // Refuses new connections, and resets connections that are not yet accepted.
  void Close() { sockets_.clear(); }

 private:
  Listener() = default;

  std::vector<Descriptor> sockets_;
  Descriptor wake_;
  int port_ = 0;
  bool is_loopback_ = false;
  bool is_awake_ = false;  // used only by the thread of Accept
};

}  // namespace fathom::http
