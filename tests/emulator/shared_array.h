// SharedArray: an array in the shared memory of an emulated block, whose every use is checked.
//
// Between two barriers, an element that one thread writes must not be used by another thread; an
// element that this block has not written must not be read; indices must be inside the array.
// Anything else is an error of the kernel, and ends its run.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace fathom::kernels::emulator {

// The last uses of an element of shared memory.
struct ElementUse {
  std::uint64_t written = 0;  // the epoch (number of barriers so far); 0: never
  std::uint64_t read = 0;
  std::int32_t writer = 0;  // threads that wrote and read it
  std::int32_t reader = 0;
};

// An array of the running block.
struct SharedMemory {
  const void* site = nullptr;  // the kernel's declaration
  std::string_view name;
  std::byte* data = nullptr;
  ElementUse* uses = nullptr;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

// Finds or makes the array that a kernel declares at `site`.
SharedMemory& FindShared(const void* site, std::string_view name, std::int64_t count,
                         std::int64_t element_bytes);
// Finds or makes an array in the block's dynamic shared memory.
SharedMemory& FindDynamicShared(const void* site, std::string_view name, std::int64_t offset,
                                std::int64_t count, std::int64_t element_bytes);
// Check that the running thread may use the element.
void CheckRead(const SharedMemory& memory, std::int64_t index);
void CheckWrite(const SharedMemory& memory, std::int64_t index);

template <class T>
class SharedArray {
 public:
  explicit SharedArray(SharedMemory& memory) : memory_(memory) {}

  class Element {
   public:
    Element(SharedMemory& memory, std::int64_t index) : memory_(memory), index_(index) {}
    operator T() const {
      CheckRead(memory_, index_);
      T value;
      std::memcpy(&value, memory_.data + index_ * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      return value;
    }
    const Element& operator=(T value) const {
      CheckWrite(memory_, index_);
      std::memcpy(memory_.data + index_ * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
      return *this;
    }
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }

   private:
    SharedMemory& memory_;
    std::int64_t index_;
  };

  Element operator[](std::int64_t index) const { return {memory_, index}; }

 private:
  SharedMemory& memory_;
};

}  // namespace fathom::kernels::emulator
