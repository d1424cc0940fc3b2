// Guarded: converts exceptions to errors where a thread begins.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace fathom {

// Returns the result of the work. Our code does not throw; an exception of the standard library
// becomes kOutOfMemory, or kResourceExhausted if the system lacks something else (threads).
template <class Work>
Status Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kResourceExhausted, "{}", error.what());
  }
}

}  // namespace fathom
