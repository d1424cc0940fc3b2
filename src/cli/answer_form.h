// The form that --schema, --regex or --grammar demands of an answer.
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

// Reads the file that the options name. Here and below, errors begin with the option: a file that
// cannot be read or is too large; a schema that is not JSON. The field of the form, and its path,
// name option and file.
Result<ContentForm> ReadAnswerForm(const FormOptions& options);

// Returns the constraint of an answer that begins in the reasoning or in the content; null: the
// answer is free. Errors: the form cannot be enforced.
Result<std::shared_ptr<const Constraint>> CompileAnswerForm(const ContentForm& form,
                                                            const CompileConstraint& compile,
                                                            bool in_reasoning);
// Likewise for the content; logs the schema's keywords that the constraint does not enforce.
Result<std::shared_ptr<const Constraint>> CompileAnswerForm(const ContentForm& form,
                                                            const CompileConstraint& compile,
                                                            Log& log);

}  // namespace fathom::cli
