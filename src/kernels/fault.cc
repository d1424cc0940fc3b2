#include "kernels/fault.h"

#include <string_view>

namespace fathom::kernels {
namespace {

std::string_view Describe(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      break;
    case Fault::kTokenOutsideVocabulary:
      return "expected a token of the vocabulary, found another one";
    case Fault::kUnknownExpertInTable:
      return "the table of experts by token: expected an expert of the layer, found another number";
    case Fault::kUnknownExpert:
      return "expected an expert of the layer, found another number";
    case Fault::kRowNotVisible:
      return "expected a compressed row that the token sees, found a later one";
    case Fault::kKeyNotCached:
      return "expected a cached key, found none";
    case Fault::kBoundaryNotCached:
      return "expected the end of the block before in the cache, found none";
  }
  return "no fault";
}

}  // namespace

Status FaultWord::ToError(std::uint64_t word) {
  return MakeError(ErrorCode::kInvalidData, "a step's data, row {}: {}", word & 0xFFFFFFFFu,
                   Describe(static_cast<Fault>(word >> 32)));
}

}  // namespace fathom::kernels
