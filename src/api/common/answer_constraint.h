// AnswerConstraint: the constraint on the answers to a call, in their content and in calls of
// tools, compiled before the request is admitted. docs/spec/constrained.md sections 1.1 to 1.3.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/common/api_error.h"
#include "api/common/content_form.h"
#include "base/caller.h"
#include "chat/chat.h"
#include "chat/encoder.h"
#include "constraint/constraint.h"

namespace fathom::api {

// Compiles like ConstraintCompiler::Compile, in the turn of a caller. Error (kStopped): the caller
// has abandoned it. Any thread may call.
using CompileConstraint = std::function<ConstraintResult<std::shared_ptr<const Constraint>>(
    const ConstraintSpec&, const Caller&)>;

// Selects the calls of tools that are constrained without a field of the request.
enum class ToolGrammar {
  kAuto,    // the markup of calls, with the names of tools and parameters
  kStrict,  // every tool is strict
  kOff,     // none
};

// The tools that an answer may call.
struct CallableTools {
  std::vector<ToolSpec> tools{};
  bool is_required = false;    // the answer is a block of calls, with all required parameters
  bool is_restricted = false;  // the prompt shows other tools, too
  bool parallel = true;        // a block may contain several calls
};

// The parts of a chat that decide how its answer may continue; a completion has none.
struct AnswerFrame {
  CallableTools callable{};
  AnswerStart start{};
};

struct AnswerConstraint {
  std::shared_ptr<const Constraint> constraint{};  // null: the answer is free
  std::vector<std::string> relaxed{};  // paths that are not enforced; ASCII without commas
  double seconds = 0;                  // time of compiling, including the wait for its turn
};

struct ConstraintRules {
  ToolGrammar tool_grammar = ToolGrammar::kAuto;
  bool openai = false;  // strict schemas must keep OpenAI's rules (openai_rules.h)
};

// Returns the constraint of an answer. `compile` may be empty: then only requests without a
// constraint can be answered.
//
// Errors: the form or a strict tool cannot be enforced, or the prompt's part of the answer violates
// the form (400, with ApiError::issues); the caller has abandoned the request (503). A grammar of
// calls that the request does not ask for is omitted if it cannot be compiled.
ApiResult<AnswerConstraint> MakeAnswerConstraint(const ContentForm& form, const AnswerFrame& frame,
                                                 const ConstraintRules& rules,
                                                 const CompileConstraint& compile,
                                                 const Caller& caller);

}  // namespace fathom::api
