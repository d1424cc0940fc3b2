#include "runtime/model_constraints.h"

namespace fathom::runtime {

std::int64_t ModelConstraints::memory_used() const {
  return is_made_ ? static_cast<std::int64_t>(compiler_->memory_used()) : 0;
}

ConstraintCompiler& ModelConstraints::compiler() {
  std::call_once(made_, [this] {
    compiler_ = std::make_unique<ConstraintCompiler>(
        std::make_shared<ConstraintVocabulary>(files_.tokenizer, files_.config.vocab_size,
                                               files_.EosTokens()),
        static_cast<std::size_t>(max_memory_));
    is_made_ = true;
  });
  return *compiler_;
}

ConstraintResult<std::shared_ptr<const Constraint>> ModelConstraints::Compile(
    const ConstraintSpec& spec, const Caller& caller) {
  ConstraintCompiler& all = compiler();
  return turns_.Compile(caller, [&](WorkPace& pace) { return all.Compile(spec, &pace); });
}

}  // namespace fathom::runtime
