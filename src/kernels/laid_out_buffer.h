// LaidOutBuffer: matrices and the memory that they lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/buffer_layout.h"

namespace fathom {

// Owns the memory. Must not outlive the backend that gave it.
template <class Views>
struct LaidOutBuffer {
  std::unique_ptr<Buffer> buffer;
  Views views;

  std::int64_t bytes() const { return std::ssize(buffer->bytes()); }
};

// What lay_out(BufferLayout&) takes, in bytes.
template <class LayOut>
std::int64_t LayoutBytes(const LayOut& lay_out) {
  BufferLayout measure;
  lay_out(measure);
  return measure.bytes();
}

// What lay_out(BufferLayout&) returns, in memory of its own, which is zeroed. Error: no memory.
template <class LayOut>
Result<LaidOutBuffer<std::invoke_result_t<LayOut, BufferLayout&>>> AllocateLayout(
    Backend& backend, const LayOut& lay_out) {
  Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(LayoutBytes(lay_out));
  if (!buffer) {
    return Unexpected(buffer.error());
  }
  BufferLayout memory((*buffer)->bytes());
  return LaidOutBuffer<std::invoke_result_t<LayOut, BufferLayout&>>{std::move(*buffer),
                                                                    lay_out(memory)};
}

}  // namespace fathom
