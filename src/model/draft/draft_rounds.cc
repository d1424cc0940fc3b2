#include "model/draft/draft_rounds.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::model {

DraftRounds::DraftRounds(std::int64_t max_requests, std::int64_t max_sequences,
                         std::int64_t max_logit_rows)
    : max_logit_rows_(max_logit_rows) {
  const auto n = static_cast<std::size_t>(max_requests);
  drafting_.reserve(n);
  rows_.reserve(n);
  indices_.reserve(n);
  tokens_.reserve(n);
  batch_.Reserve(max_requests, max_sequences);
}

Status DraftRounds::Run(std::span<const DraftRequest> requests,
                        std::span<const TokenPosition> positions, const Head& head,
                        const DescribeDrafts& describe, const ChooseDrafts& choose) {
  drafting_.clear();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& [row, n_drafts] = requests[i];
    Check(row >= 0 && row < std::ssize(positions), "drafts behind a row that was not committed");
    if (n_drafts > 0) {
      drafting_.push_back({.request = static_cast<std::int32_t>(i),
                           .row = row,
                           .at = positions[static_cast<std::size_t>(row)],
                           .n_left = n_drafts});
    }
  }
  while (!drafting_.empty()) {
    if (Status chosen = Choose(head, describe, choose); !chosen) return chosen;
    PrepareNext();
    if (drafting_.empty()) break;
    if (Status ran = head.forward(batch_, rows_); !ran) return ran;
    for (std::size_t i = 0; i < drafting_.size(); ++i) {
      drafting_[i].row = static_cast<std::int32_t>(i);
    }
  }
  return {};
}

// Lets `choose` choose the next draft of all requests, a full call of the head at a time.
Status DraftRounds::Choose(const Head& head, const DescribeDrafts& describe,
                           const ChooseDrafts& choose) {
  const auto describe_rows = [&] { return describe(indices_); };
  for (std::int64_t first = 0; first < std::ssize(drafting_);) {
    const auto n = std::min(max_logit_rows_, std::ssize(drafting_) - first);
    const std::span<Drafting> tile =
        std::span(drafting_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
    rows_.clear();
    indices_.clear();
    bool goes_on = false;
    for (const Drafting& drafting : tile) {
      rows_.push_back(drafting.row);
      indices_.push_back(drafting.request);
      goes_on = goes_on || drafting.n_left > 1;
    }
    const Result<ChosenTokens> found =
        head.choose(rows_, describe ? DescribeRows(describe_rows) : DescribeRows());
    if (!found) return Unexpected(found.error());
    tokens_.assign(tile.size(), kNoDraft);
    const DraftLogits drafts = {.requests = indices_,
                                .logits = found->logits,
                                .choices = found->choices,
                                .every_rank_needs_tokens = goes_on};
    if (Status chosen = choose(drafts, tokens_); !chosen) return chosen;
    for (std::size_t i = 0; i < tile.size(); ++i) {
      tile[i].token = tokens_[i];
    }
    first += n;
  }
  return {};
}

// Prepares the next pass: the drafts after which further drafts were requested.
void DraftRounds::PrepareNext() {
  std::erase_if(drafting_, [](const Drafting& drafting) {
    return drafting.token == kNoDraft || drafting.n_left == 1;
  });
  batch_.Clear();
  rows_.clear();
  for (Drafting& drafting : drafting_) {
    --drafting.n_left;
    ++drafting.at.position;
    batch_.Add(drafting.at.sequence, drafting.at.position, {&drafting.token, 1});
    rows_.push_back(drafting.row);
  }
}

}  // namespace fathom::model
