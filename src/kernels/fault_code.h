// The faults that an operation can find in the numbers it was given (kernels/fault.h).
#pragma once

#include <cstdint>

namespace fathom::kernels {

enum class Fault : std::uint32_t {
  kNone,
  kTokenOutsideVocabulary,  // in the embedding or in routing by token
  kUnknownExpertInTable,    // in routing by token
  kUnknownExpert,           // in the routed experts
  kRowNotVisible,           // in attention: a selected row
  kKeyNotCached,            // in attention: a key of the window or a compressed row
  kBoundaryNotCached,       // in compressors: the end of the block before
};

}  // namespace fathom::kernels
