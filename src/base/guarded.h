// Where exceptions end: at the beginning of a thread.
#pragma once

#include <exception>
#include <new>

#include "base/result.h"

namespace fathom {

// What the work returns. We throw nothing; what the standard library throws is an error:
// kOutOfMemory, or kResourceExhausted where something else of the system has run out (threads).
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
