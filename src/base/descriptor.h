// Descriptor: owns a file descriptor (-1: none) and closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace fathom {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  // Releases ownership: the caller must close the descriptor.
  int Release() { return std::exchange(fd_, -1); }
  // Reports errors of delayed writes on some file systems.
  bool Close() {
    const int fd = Release();
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_ = -1;
};

}  // namespace fathom
