// The faults that an operation can find in the numbers it was given (kernels/fault.h).
#pragma once

#include <cstdint>

namespace fathom {

enum class Fault : std::uint32_t {
  kNone,
  kTokenOutsideVocabulary,  // Embed, RouteByToken
  kUnknownExpertInTable,    // RouteByToken
  kUnknownExpert,           // ExpertRows
  kRowNotVisible,           // SparseAttention: a selected row
  kKeyNotCached,            // SparseAttention: a key of the window or a compressed row
  kBoundaryNotCached,       // Compress: the end of the block before
};

}  // namespace fathom
