// The constraint of a call: what a request asks of its answers, in their content and in calls of
// tools, compiled before the request is admitted. docs/spec/constrained.md sections 1.1 to 1.3.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api_error.h"
#include "api/common/content_form.h"
#include "base/caller.h"
#include "chat/chat.h"
#include "constraint/constraint.h"

namespace fathom {

// Compiles as ConstraintCompiler::Compile, in the turn of a caller. Error (kStopped): the caller
// has abandoned it. Any thread may call.
using CompileConstraint = std::function<ConstraintResult<std::shared_ptr<const Constraint>>(
    const ConstraintSpec&, const Caller&)>;

// Which calls of tools are constrained where nothing in the request asks for it.
enum class ToolGrammar {
  kAuto,    // their markup, with the names of tools and parameters
  kStrict,  // every tool is strict
  kOff,     // none
};

// The tools that an answer may call.
struct CallableTools {
  std::vector<ToolSpec> tools{};
  bool is_required = false;    // the answer is a block of calls, with what their tools require
  bool is_restricted = false;  // the prompt shows others, too
  bool parallel = true;        // several calls in a block
};

// Where the answer begins.
struct AnswerStart {
  bool in_reasoning = false;
  std::string prefill{};   // content that the prompt has already
  bool has_calls = false;  // the prompt has calls of the answer, too
};

// The parts of a chat that decide how its answer may go on; a completion has none.
struct AnswerFrame {
  CallableTools callable{};
  AnswerStart start{};
};

struct AnswerConstraint {
  std::shared_ptr<const Constraint> constraint{};  // null: the answer may be anything
  std::vector<std::string> relaxed{};  // paths of what is not enforced; plain ASCII, no commas
  double seconds = 0;                  // that compiling took, with the wait for its turn
};

struct ConstraintRules {
  ToolGrammar tool_grammar = ToolGrammar::kAuto;
  bool openai = false;  // strict schemas must keep OpenAI's rules (openai_rules.h)
};

// Returns the constraint of an answer. `compile` may be empty: then only requests that ask for no
// constraint have an answer.
//
// Errors: the form or a strict tool cannot be enforced, or the prompt's part of the answer has not
// the form (400, with ApiError::issues); the caller has abandoned the request (503). A grammar of
// calls that nothing in the request asks for is left out if it cannot be compiled.
ApiResult<AnswerConstraint> MakeAnswerConstraint(const ContentForm& form, const AnswerFrame& frame,
                                                 const ConstraintRules& rules,
                                                 const CompileConstraint& compile,
                                                 const Caller& caller);

}  // namespace fathom
