// ModelAdapter: a Model as the engine's LanguageModel.
#ifndef FATHOM_ENGINE_MODEL_ADAPTER_H_
#define FATHOM_ENGINE_MODEL_ADAPTER_H_

#include <cstdint>
#include <span>

#include "engine/language_model.h"
#include "model/model.h"

namespace fathom {

// Does not own the model, which must outlive it.
class ModelAdapter final : public LanguageModel {
 public:
  explicit ModelAdapter(Model& model) : model_(model) {}

  ModelLimits Limits() const override {
    return {.vocab_size = model_.config().vocab_size,
            .max_sequences = model_.options().max_sequences,
            .max_context = model_.options().max_context,
            .max_batch_tokens = model_.options().max_batch_tokens,
            .rollback_tokens = kRollbackTokens};
  }
  Status Forward(const Batch& batch) override { return model_.Forward(batch); }
  Matrix<const float> Logits(std::span<const std::int32_t> rows) override {
    return model_.Logits(rows);
  }

 private:
  Model& model_;
};

}  // namespace fathom

#endif  // FATHOM_ENGINE_MODEL_ADAPTER_H_
