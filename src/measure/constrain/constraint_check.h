// ConstraintCheck: compiles a constraint, tests texts against its masks, and measures times, for
// `fathom constrain` (docs/constrain.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "json/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom::measure {

// The result for one text: its tokens, one after another, and then the end of the answer.
struct TextResult {
  bool accepted = false;
  std::optional<bool> valid{};     // the expected result, if it is known
  bool is_decided = true;          // false: refused, but another order of keys may be accepted
  std::string error{};             // the error of a mask that was too complex
  std::vector<double> mask_us{};   // time of each mask; the last one follows the text
  std::int64_t refused_byte = -1;  // offset of the refused token; size of the text: its end
};

struct ConstraintCheck {
  std::optional<ConstraintError> error{};  // error of the compilation
  double compile_us = 0;
  std::vector<std::string> relaxed{};
  std::vector<TextResult> results{};

  // Returns "ok", "unsupported", "invalid", "unsatisfiable" or "too_large".
  std::string_view Outcome() const;
};

// A value as JSON without blanks.
struct OrderedText {
  std::string text{};
  bool is_decided = true;  // false: the search for an order of the keys reached its bound
};

// One thread at a time.
class ConstraintChecker {
 public:
  // vocab_size: rows of the model's logits. The tokenizer must outlive the checker.
  ConstraintChecker(const Tokenizer& tokenizer, std::int64_t vocab_size, Token eos);

  // Compiles a constraint, independently of earlier calls.
  ConstraintCheck Compile(const ContentConstraint& content);
  // Tests a text with the constraint of the last Compile, which must have succeeded.
  TextResult Test(std::string_view text) const;
  // Writes the value with the keys of objects in an order that the constraint of the last Compile
  // accepts. A bounded search, which tries the given order first, finds this order. If there is
  // none, or none was found, the given order stays.
  OrderedText Write(const JsonValue& value) const;

 private:
  const Tokenizer& tokenizer_;
  const Token eos_;
  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  std::shared_ptr<const Constraint> constraint_;
};

// Returns the value with the keys of its objects in the order in which the schema names them: for
// each schema that applies, the declared properties, then other required ones; last all other keys,
// in the order of their texts. A compiled schema mostly accepts keys in this order
// (docs/spec/constrained.md 2.1).
JsonValue InSchemaOrder(const JsonValue& schema, const JsonValue& value);

}  // namespace fathom::measure
