// The logits from which drafts are chosen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "model/draft/drafter.h"

namespace fathom::testing {

// Returns the logits of the first drafts behind rows of the last commit, [rows, vocabulary].
// Chooses no draft. Once per commit. Fails the calling test on an error.
inline std::vector<float> LogitsOfDrafts(Drafter& drafter, std::span<const std::int32_t> rows) {
  std::vector<DraftRequest> requests;
  for (const std::int32_t row : rows) {
    requests.push_back({.row = row, .n_drafts = 1});
  }
  std::vector<float> logits;
  std::int32_t n_found = 0;
  const Status ran =
      drafter.Propose(requests, {}, [&](const DraftLogits& found, std::span<Token> /*tokens*/) {
        for (const std::int32_t request : found.requests) {
          EXPECT_EQ(request, n_found++);
        }
        EXPECT_FALSE(found.every_rank_needs_tokens);
        logits.insert(logits.end(), found.logits.data,
                      found.logits.data + found.logits.rows * found.logits.cols);
        return Status();
      });
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
  EXPECT_EQ(static_cast<std::size_t>(n_found), rows.size());
  return logits;
}

}  // namespace fathom::testing
