// LaidOutBuffer: matrices, and the memory of a backend that holds them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/buffer_layout.h"

namespace fathom::kernels {

// Owns the memory. Must not outlive the backend.
template <class Views>
struct LaidOutBuffer {
  std::unique_ptr<Buffer> buffer;
  Views views;

  std::int64_t bytes() const { return buffer->bytes(); }
};

// Returns the bytes that lay_out(BufferLayout&) needs.
template <class LayOut>
std::int64_t LayoutBytes(const LayOut& lay_out) {
  BufferLayout measure;
  lay_out(measure);
  return measure.bytes();
}

// Returns the result of lay_out(BufferLayout&) in zeroed memory of its own. Error: kOutOfMemory.
template <class LayOut>
Result<LaidOutBuffer<std::invoke_result_t<LayOut, BufferLayout&>>> AllocateLayout(
    Backend& backend, const LayOut& lay_out, MemoryKind kind = MemoryKind::kDevice) {
  Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(LayoutBytes(lay_out), kind);
  if (!buffer) return Unexpected(buffer.error());
  BufferLayout memory((*buffer)->address(), (*buffer)->bytes());
  return LaidOutBuffer<std::invoke_result_t<LayOut, BufferLayout&>>{std::move(*buffer),
                                                                    lay_out(memory)};
}

}  // namespace fathom::kernels
