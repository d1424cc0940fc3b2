// Guarded: turns exceptions into errors where a thread begins.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace fathom {

// Returns what the work returns. Our code throws nothing; an exception of the standard library
// becomes kOutOfMemory, or kResourceExhausted if the system has run out of something else
// (threads).
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
