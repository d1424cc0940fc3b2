// Fifty schemas, regular expressions, grammars and sets of tools whose masks are compared with an
// oracle (docs/spec/constrained.md 5.3).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "constraint/grammar/grammar.h"
#include "constraint/masks/vocabulary.h"

namespace fathom::testing {

enum class MaskCaseKind {
  kSchema,
  kRegex,
  kGbnf,
  kTools,  // [[name, parameters, strict], ...], or [name, null, false, regex] for a custom tool
};

struct MaskCase {
  std::string_view name;
  MaskCaseKind kind;
  std::string_view text;
};

std::span<const MaskCase> MaskCases();

// Fails the calling test if the case does not compile.
std::unique_ptr<Grammar> CompileMaskCase(const MaskCase& mask_case,
                                         const ConstraintVocabulary& vocabulary);

}  // namespace fathom::testing
