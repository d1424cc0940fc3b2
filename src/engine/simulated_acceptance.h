// SimulatedAcceptance: a model that finds drafts right at a given rate, for measurements of speed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/forwarding_model.h"

namespace fathom {

// Changes the logits that verify drafted tokens so that the token is chosen, or is not chosen: the
// answers are those of no model. A row of a batch verifies a draft if another token of its segment
// follows and its logits are asked for. One thread at a time.
class SimulatedAcceptance : public ForwardingModel {
 public:
  // rate: the share of drafts that are right, 0 to 1.
  SimulatedAcceptance(std::unique_ptr<LanguageModel> model, double rate);

  // Without passes in pieces: the rows of a batch are those of the last call of Forward.
  ModelLimits Limits() const override;
  Status Forward(const Batch& batch) override;
  Status ForwardEach(const Batch& batch, std::vector<SequenceFailure>& failed) override;
  Status StartLogits(std::span<const std::int32_t> rows, int slot) override;
  Result<Matrix<const float>> FinishLogits(int slot) override;
  bool ChoosesTokens() const override { return false; }  // from logits that are changed on the host

 protected:
  LanguageModel& model() const override { return *model_; }

 private:
  // The draft that the logits of a row verify.
  struct Draft {
    Token token = kNoDraft;
    bool is_right = false;
  };

  void ListDrafts(const BatchView& batch);

  const std::unique_ptr<LanguageModel> model_;
  const double rate_;
  std::vector<Draft> drafts_;                // by row of the last batch
  std::vector<std::vector<Draft>> by_slot_;  // by row of the logits
  std::vector<std::vector<float>> logits_;   // by slot
};

}  // namespace fathom
