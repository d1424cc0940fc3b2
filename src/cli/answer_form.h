// AnswerForm: the form that --schema, --regex or --grammar demands of an answer.
#pragma once

#include <memory>
#include <string>

#include "api/common/answer_constraint.h"
#include "api/common/content_form.h"
#include "base/result.h"
#include "cli/options/options.h"
#include "cli/terminal/log.h"
#include "constraint/constraint.h"

namespace fathom::cli {

class AnswerForm {
 public:
  // Reads the file that the options name. Here and below, errors begin with the option: a file that
  // cannot be read or is too large; a schema that is not JSON.
  static Result<AnswerForm> Read(const FormOptions& options);

  // Returns the constraint of an answer that begins in the reasoning or in the content; null: the
  // answer is free. Errors: the form cannot be enforced.
  Result<std::shared_ptr<const Constraint>> Compile(const CompileConstraint& compile,
                                                    bool in_reasoning) const;
  // Returns the form as a field of API requests.
  ContentForm ForRequests() const;
  // Logs the schema's keywords that the constraint (may be null) does not enforce.
  void WarnOfRelaxed(const Constraint* constraint, Log& log) const;

 private:
  ContentConstraint content_;
  std::string source_;  // for errors: "--schema: FILE"
};

}  // namespace fathom::cli
