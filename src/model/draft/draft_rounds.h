// DraftRounds: drafts of a head that drafts one token in a pass, round after round. Each further
// round runs the head on its own streams and the tokens that were just chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "model/batch.h"
#include "model/draft/drafter.h"
#include "model/token_choices.h"
#include "model/token_position.h"

namespace fathom::model {

// Keeps its memory when it is reused. One thread at a time.
class DraftRounds {
 public:
  // The passes of the head.
  struct Head {
    // Chooses from rows of the last pass; the result is valid until the next call.
    std::function<Result<ChosenTokens>(std::span<const std::int32_t> rows, DescribeRows describe)>
        choose;
    // Runs a pass whose row i follows the position of row stream_rows[i] of the last pass.
    std::function<Status(const Batch& next, std::span<const std::int32_t> stream_rows)> forward;
  };

  // Limits: requests, sequences, and rows of one call of Head::choose.
  DraftRounds(std::int64_t max_requests, std::int64_t max_sequences, std::int64_t max_logit_rows);

  // Implements Drafter::Propose after a pass with rows at `positions`.
  Status Run(std::span<const DraftRequest> requests, std::span<const TokenPosition> positions,
             const Head& head, const DescribeDrafts& describe, const ChooseDrafts& choose);

 private:
  struct Drafting {
    std::int32_t request = 0;  // index of the request
    std::int32_t row = 0;      // row of the last pass
    TokenPosition at;
    std::int64_t n_left = 0;  // drafts that may follow, the next one included
    Token token = kNoDraft;   // the last draft
  };

  Status Choose(const Head& head, const DescribeDrafts& describe, const ChooseDrafts& choose);
  void PrepareNext();

  const std::int64_t max_logit_rows_;
  std::vector<Drafting> drafting_;
  Batch batch_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> indices_;
  std::vector<Token> tokens_;
};

}  // namespace fathom::model
