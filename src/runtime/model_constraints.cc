#include "runtime/model_constraints.h"

namespace fathom {

ConstraintCompiler& ModelConstraints::compiler() {
  std::call_once(made_, [this] {
    compiler_ = std::make_unique<ConstraintCompiler>(
        ConstraintVocabulary::Make(files_.tokenizer, files_.config.vocab_size, files_.EosTokens()));
  });
  return *compiler_;
}

ConstraintResult<std::shared_ptr<const Constraint>> ModelConstraints::Compile(
    const ConstraintSpec& spec, const Caller& caller) {
  ConstraintCompiler& all = compiler();
  return turns_.Compile(caller, [&](WorkPace& pace) { return all.Compile(spec, &pace); });
}

}  // namespace fathom
