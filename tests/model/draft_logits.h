// The logits from which drafts are chosen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "model/draft/drafter.h"

namespace fathom::testing {

// Returns the logits of the first drafts behind rows of the last commit, at most max_logit_rows;
// valid until the next call. Chooses no draft. Fails the calling test on an error.
inline Matrix<const float> LogitsOfDrafts(Drafter& drafter, std::span<const std::int32_t> rows) {
  std::vector<DraftRequest> requests;
  for (const std::int32_t row : rows) {
    requests.push_back({.row = row, .n_drafts = 1});
  }
  Matrix<const float> logits;
  const Status ran =
      drafter.Propose(requests, [&](const DraftLogits& found, std::span<Token> /*tokens*/) {
        EXPECT_EQ(found.requests.size(), rows.size());
        EXPECT_FALSE(found.every_rank_needs_tokens);
        logits = found.logits;
        return Status();
      });
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
  return logits;
}

}  // namespace fathom::testing
