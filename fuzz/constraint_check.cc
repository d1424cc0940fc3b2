#include "fuzz/constraint_check.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/utf8.h"
#include "constraint/constraint_error.h"
#include "constraint/grammar/automaton.h"
#include "constraint/grammar/grammar.h"
#include "constraint/readers/gbnf.h"
#include "constraint/readers/regex.h"
#include "constraint/schema/json_schema.h"
#include "json/json_value.h"

namespace fathom::fuzz {
namespace {

constexpr std::size_t kMaxStates = 500;
constexpr int kMaxSteps = 200;

// An error must be one sentence for a person, with places that the API can send as JSON.
std::string CheckError(const ConstraintError& error) {
  if (error.message.empty()) return "an error without a message";
  if (error.issues.empty() || error.issues.size() > kMaxIssues) {
    return fmt::format("an error with {} issues", error.issues.size());
  }
  for (const ConstraintIssue& issue : error.issues) {
    if (issue.reason.empty()) return "an issue without a reason";
    if (!IsValidUtf8(issue.reason) || !IsValidUtf8(issue.pointer)) return "an issue not in UTF-8";
    if (issue.reason.size() > 2000) return "an issue with too long a reason";
  }
  return "";
}

// Walks from the start to states that it has not left yet, each by the next byte that leads on.
// A state that is not dead must lead on or accept.
std::string Walk(Grammar& grammar) {
  Automaton automaton(grammar.pool, kMaxStates);
  StateId state = automaton.Start(grammar.start);
  std::uint8_t byte = 0;
  for (int i = 0; i < kMaxSteps && state != kDeadState && !automaton.exhausted(); ++i) {
    StateId next = kDeadState;
    for (int n = 0; n < 256 && next == kDeadState; ++n) next = automaton.Next(state, byte++);
    if (automaton.exhausted()) return "";
    if ((next != kDeadState) != automaton.TakesBytes(state)) return "TakesBytes is wrong";
    for (const LetterEdge& edge : automaton.Edges(state)) {
      if (edge.target == kDeadState) return "an edge to the dead state";
      if (next == kDeadState) next = edge.target;
    }
    if (automaton.exhausted()) return "";
    if (next == kDeadState && !automaton.Accepts(state)) return "a state without a way on";
    state = next;
  }
  return "";
}

}  // namespace

std::string CheckGbnf(std::string_view input) {
  Grammar grammar;
  GbnfOptions options;
  options.vocab_size = 100;
  options.find_token = [](std::string_view text) {
    return text == "<think>" ? std::optional<Token>(5) : std::nullopt;
  };
  const ConstraintResult<void> parsed = ParseGbnf(grammar, input, options);
  if (!parsed) {
    const ConstraintErrorCode code = parsed.error().code;
    if (code != ConstraintErrorCode::kInvalidGrammar && code != ConstraintErrorCode::kTooLarge) {
      return "an error of another kind";
    }
    return CheckError(parsed.error());
  }
  if (grammar.start == grammar.pool.Nothing()) return "a grammar without texts";
  for (const Rule& rule : grammar.rules) {
    if (rule.body == grammar.pool.Nothing()) return "a rule without texts";
  }
  return Walk(grammar);
}

std::string CheckRegex(std::string_view input) {
  for (const bool anchored : {false, true}) {
    Grammar grammar;
    const ConstraintResult<ExpressionId> parsed =
        ParseRegex(grammar.pool, input, {.anchored = anchored});
    if (!parsed) return CheckError(parsed.error());
    grammar.start = *parsed;
    const std::string wrong = Walk(grammar);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CheckJsonSchema(std::string_view input) {
  const Result<JsonValue> schema = ParseJson(input);
  if (!schema) return "";
  for (const bool strict : {false, true}) {
    Grammar grammar;
    JsonSchemaCompiler compiler(grammar, {.strict = strict});
    const ConstraintResult<ExpressionId> value = compiler.Value(*schema);
    if (!value) {
      const std::string wrong = CheckError(value.error());
      if (!wrong.empty()) return wrong;
      continue;
    }
    grammar.start = *value;
    const std::string wrong = Walk(grammar);
    if (!wrong.empty()) return wrong;
    const ConstraintResult<std::vector<ToolArguments>> forms = compiler.Arguments(*schema);
    if (!forms) return CheckError(forms.error());
    if (forms->size() > 16) return "more than 16 forms of arguments";
  }
  return "";
}

}  // namespace fathom::fuzz
