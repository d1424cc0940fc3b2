// ConstraintCheck: compiles a constraint and tests texts by its masks, with times, for `fathom
// constrain` (docs/constrain.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraint/constraint.h"
#include "json/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// One text: its tokens, one after the other, and then the end of the answer.
struct TextResult {
  bool accepted = false;
  std::optional<bool> valid{};     // what the text should be, if that is known
  bool is_decided = true;          // false: refused, but another order of keys may be accepted
  std::string error{};             // of a mask that was too complex
  std::vector<double> mask_us{};   // time of each mask; the last one is behind the text
  std::int64_t refused_byte = -1;  // where the refused token begins; the size of the text: the end
};

struct ConstraintCheck {
  std::optional<ConstraintError> error{};  // of the compilation
  double compile_us = 0;
  std::vector<std::string> relaxed{};
  std::vector<TextResult> results{};

  // "ok", "unsupported", "invalid", "unsatisfiable" or "too_large".
  std::string_view Outcome() const;
};

// A value as JSON without blanks.
struct OrderedText {
  std::string text{};
  bool is_decided = true;  // false: the search for an order of its keys ended at its bound
};

// One thread at a time.
class ConstraintChecker {
 public:
  // vocab_size: rows of the model's logits. The tokenizer must outlive the checker.
  ConstraintChecker(const Tokenizer& tokenizer, std::int64_t vocab_size, Token eos);

  // Compiles, without anything from earlier calls.
  ConstraintCheck Compile(const ContentConstraint& content);
  // Tests a text with the constraint of the last Compile, which must have succeeded.
  TextResult Test(std::string_view text) const;
  // Writes the keys of objects in an order in which the constraint of the last Compile takes them,
  // found by a bounded search that tries the given order first; in the given order if there is no
  // such order, or none was found.
  OrderedText Write(const JsonValue& value) const;

 private:
  const Tokenizer& tokenizer_;
  const Token eos_;
  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  std::shared_ptr<const Constraint> constraint_;
};

// The value with the keys of its objects in the order in which the schema names them: of each
// schema that applies the declared properties, then other required ones; last the rest in the order
// of their texts. A compiled schema mostly takes keys in this order (docs/spec/constrained.md 2.1).
JsonValue InSchemaOrder(const JsonValue& schema, const JsonValue& value);

}  // namespace fathom
