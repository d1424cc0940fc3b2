// SharedMemoryResource: memory that the host and a backend reach, for containers of the standard
// library. An allocation of its own for each request, so that a tool that checks accesses sees the
// end of each array.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>

#include "kernels/backend.h"

namespace fathom::testing {

class SharedMemoryResource : public std::pmr::memory_resource {
 public:
  // `backend` must outlive the object and what was allocated.
  explicit SharedMemoryResource(Backend& backend) : backend_(backend) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    Result<std::unique_ptr<Buffer>> buffer =
        backend_.Allocate(static_cast<std::int64_t>(bytes), MemoryKind::kShared);
    if (!buffer) {
      ADD_FAILURE() << buffer.error().message;
      throw std::bad_alloc();
    }
    void* const address = (*buffer)->address();
    buffers_[address] = *std::move(buffer);
    return address;
  }
  void do_deallocate(void* address, std::size_t, std::size_t) override { buffers_.erase(address); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Backend& backend_;
  std::map<void*, std::unique_ptr<Buffer>> buffers_;
};

}  // namespace fathom::testing
