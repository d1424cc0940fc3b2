// GBNF, the grammar notation of llama.cpp, as grammar rules (docs/spec/constrained.md 2.4).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/tensor.h"
#include "constraint/constraint_error.h"
#include "constraint/grammar/grammar.h"

namespace fathom::constraint {

struct GbnfOptions {
  std::size_t max_bytes = 1 << 20;
  std::size_t max_rules = 4096;
  int max_depth = 256;  // nested groups
  // Finds the token with this text, for terminals <text>; <[id]> needs no search.
  std::function<std::optional<Token>(std::string_view)> find_token{};
  std::int64_t vocab_size = 0;
};

// Sets grammar.start to the rule `root`. Errors: kInvalidGrammar or kTooLarge; their issues have
// the pointer "line:column".
ConstraintResult<void> ParseGbnf(Grammar& grammar, std::string_view text,
                                 const GbnfOptions& options);

}  // namespace fathom::constraint
