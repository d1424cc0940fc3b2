// Reads texts by a grammar, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "constraint/grammar/grammar.h"
#include "constraint/grammar/matcher.h"
#include "constraint/readers/gbnf.h"

namespace fathom::constraint {

// A grammar and its matcher.
class GrammarReader {
 public:
  explicit GrammarReader(std::unique_ptr<Grammar> grammar, const MatcherLimits& limits = {})
      : grammar_(std::move(grammar)), matcher_(*grammar_, limits) {}

  static GrammarReader FromGbnf(std::string_view text, const MatcherLimits& limits = {}) {
    auto grammar = std::make_unique<Grammar>();
    const ConstraintResult<void> parsed = ParseGbnf(*grammar, text, {.vocab_size = 1000});
    EXPECT_TRUE(parsed) << parsed.error().message;
    return GrammarReader(std::move(grammar), limits);
  }

  Matcher& matcher() { return matcher_; }

  // The state behind a text; dead where nothing matches.
  MatcherState Read(std::string_view text) { return ReadFrom(matcher_.Begin(), text); }
  MatcherState ReadFrom(MatcherState state, std::string_view text) {
    for (const char c : text) {
      matcher_.Reset();
      MatcherState next;
      if (!matcher_.Step(state, static_cast<std::uint8_t>(c), next)) return {};
      state = std::move(next);
    }
    return state;
  }
  bool Accepts(std::string_view text) { return Read(text).accepts; }
  // True if some text begins like this.
  bool Begins(std::string_view text) { return !Read(text).IsDead(); }

 private:
  std::unique_ptr<Grammar> grammar_;
  Matcher matcher_;
};

}  // namespace fathom::constraint
