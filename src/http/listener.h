// Listener: the sockets on which new connections arrive.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom {

// Owns its sockets. Accept on one thread; Wake from any; Close on that of Accept or after it.
class Listener {
 public:
  struct Arrival {
    Descriptor descriptor;      // does not block; none if `is_exhausted`
    std::string peer;           // the address, without the port
    bool is_exhausted = false;  // the system has no descriptors or memory for another connection
  };

  // On every address that `host` stands for, all with the same port. Port 0: any that is free.
  // Errors: the host is unknown (kNotFound), an address is in use or not ours (kIo).
  static Result<Listener> Open(const std::string& host, int port);

  int port() const { return port_; }
  // The next connection; nothing once Wake was called, or after `milliseconds` (-1: no end).
  std::optional<Arrival> Accept(int milliseconds);
  // Ends Accept, now and forever.
  void Wake();
  bool is_awake() const { return is_awake_; }
  // The system refuses new connections from now on, and resets those not yet accepted.
  void Close() { sockets_.clear(); }

 private:
  Listener() = default;

  std::vector<Descriptor> sockets_;
  Descriptor wake_;
  int port_ = 0;
  bool is_awake_ = false;  // the thread of Accept only
};

}  // namespace fathom
