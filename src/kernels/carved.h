// Carved: matrices and the memory that they lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/carver.h"

namespace fathom {

// Owns the memory. Must not outlive the backend that gave it.
template <class Views>
struct Carved {
  std::unique_ptr<Buffer> buffer;
  Views views;

  std::int64_t bytes() const { return std::ssize(buffer->bytes()); }
};

// What carve(Carver&) takes, in bytes.
template <class Carve>
std::int64_t CarvedBytes(const Carve& carve) {
  Carver measure;
  carve(measure);
  return measure.bytes();
}

// What carve(Carver&) returns, in memory of its own, which is zeroed. Error: no memory.
template <class Carve>
Result<Carved<std::invoke_result_t<Carve, Carver&>>> AllocateCarved(Backend& backend,
                                                                    const Carve& carve) {
  Result<std::unique_ptr<Buffer>> buffer = backend.Allocate(CarvedBytes(carve));
  if (!buffer) {
    return Unexpected(buffer.error());
  }
  Carver carver((*buffer)->bytes());
  return Carved<std::invoke_result_t<Carve, Carver&>>{std::move(*buffer), carve(carver)};
}

}  // namespace fathom
