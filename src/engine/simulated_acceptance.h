// SimulatedAcceptance: a model that accepts drafts at a given rate, for measurements of speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/forwarding_model.h"

namespace fathom {

// Changes the choices that verify drafted tokens so that the token is chosen, or is not chosen: the
// answers are not answers of any real model. A row of a batch verifies a draft if another token of
// its segment follows and its token is requested. Of every 20 drafts at an index, the number that
// the rate demands is right, in random order: two short answers differ by the measured change, not
// by the luck of their drafts. One thread at a time.
class SimulatedAcceptance : public ForwardingModel {
 public:
  // rate: the share of drafts that are right, 0 to 1. `model` must outlive this object. Rows whose
  // logits the host gets (constraints) are not changed.
  SimulatedAcceptance(LanguageModel& model, double rate);

  // Excludes passes in pieces: the rows of a batch are the rows of the last call of Forward.
  ModelLimits Limits() const override;
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) override;
  Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int slot) override;
  Result<ChosenTokens> FinishTokens(int slot) override;

 protected:
  LanguageModel& model() const override { return model_; }

 private:
  // The draft that the token of a row verifies.
  struct Draft {
    Token token = kNoDraft;
    bool is_right = false;
  };

  // The drafts of a segment whose tokens were requested last.
  struct Asked {
    std::int32_t next_row = -1;
    std::size_t n_drafts = 0;
    bool all_right = true;
  };
  // Drafts at one index.
  struct Verified {
    std::int64_t n = 0;
    std::int64_t n_right = 0;
  };

  void ListDrafts(const BatchView& batch);
  bool Decide(std::size_t index);
  Draft Ask(std::int32_t row);

  LanguageModel& model_;
  const double rate_;
  std::vector<Token> drafts_;  // by row of the last batch
  Asked asked_;
  std::vector<Verified> verified_;           // by index
  std::vector<std::vector<Draft>> by_slot_;  // by row
  std::vector<TokenChoice> choices_;
};

}  // namespace fathom
