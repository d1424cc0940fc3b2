// Tool calls in DSML as grammar rules (docs/spec/constrained.md 2.5).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "constraint/constraint_error.h"
#include "constraint/grammar/grammar.h"
#include "constraint/schema/json_schema.h"

namespace fathom::constraint {

// A tool as the grammar of calls sees it.
struct ToolSchema {
  std::string name{};
  JsonValue parameters{};  // the schema; null: no parameters are declared
  bool strict = false;     // values and required parameters as the schema says; else markup only
  // If not strict: the parameters that the schema requires must be there nevertheless.
  bool has_required = false;
  // A tool that takes one raw text instead of parameters (custom tools of Responses): the name of
  // the parameter that holds it, and the regular expression of the text, "" for any.
  std::optional<std::string> raw_parameter{};
  std::string raw_regex{};
};

struct DsmlOptions {
  Token dsml = 0;           // the token ｜DSML｜
  std::string dsml_text{};  // its text
  bool parallel = true;     // several calls in a block
  JsonLayout layout{};
};

// A block of calls, from its "<" to the ">" after "/｜DSML｜tool_calls". `relaxed` gets the
// keywords that are not enforced, as "tools[i]..." paths. Errors: issues whose pointers begin with
// the index of the tool.
ConstraintResult<ExpressionId> DsmlBlock(Grammar& grammar, std::span<const ToolSchema> tools,
                                         const DsmlOptions& options,
                                         std::vector<std::string>& relaxed);

}  // namespace fathom::constraint
