#include "engine/ranks/rank_calls.h"

#include <algorithm>

namespace fathom {
namespace {

std::int32_t TakeSmall(RankMessage& message) { return static_cast<std::int32_t>(message.Take()); }

}  // namespace

void AddSizes(const ModelOptions& options, RankMessage& message) {
  for (const std::int64_t size :
       {options.max_sequences, options.max_context, options.max_batch_tokens,
        options.max_logit_rows, std::int64_t{options.with_draft}, options.kv_memory_bytes}) {
    message.Add(size);
  }
}

void TakeSizes(RankMessage& message, ModelOptions& options) {
  options.max_sequences = message.Take();
  options.max_context = message.Take();
  options.max_batch_tokens = message.Take();
  options.max_logit_rows = message.Take();
  options.with_draft = message.Take() != 0;
  options.kv_memory_bytes = message.Take();
}

void AddBatch(const BatchView& batch, RankMessage& message) {
  message.Add(std::ssize(batch.segments));
  for (const Segment& segment : batch.segments) {
    message.Add(segment.sequence);
    message.Add(segment.first_position);
    message.Add(segment.n_tokens);
    for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
      message.Add(batch.tokens[static_cast<std::size_t>(segment.first_row + i)]);
    }
  }
}

void TakeBatch(RankMessage& message, Batch& batch) {
  batch.Clear();
  std::vector<Token> tokens;
  for (std::size_t n = message.TakeLength(); n > 0; --n) {
    const std::int32_t sequence = TakeSmall(message);
    const std::int32_t first_position = TakeSmall(message);
    tokens.resize(message.TakeLength());
    for (Token& token : tokens) {
      token = static_cast<Token>(message.Take());
    }
    batch.Add(sequence, first_position, tokens);
  }
}

void AddRows(std::span<const std::int32_t> rows, RankMessage& message) {
  message.Add(std::ssize(rows));
  for (const std::int32_t row : rows) {
    message.Add(row);
  }
}

void TakeRows(RankMessage& message, std::vector<std::int32_t>& rows) {
  rows.resize(message.TakeLength());
  for (std::int32_t& row : rows) {
    row = TakeSmall(message);
  }
}

void AddRequests(std::span<const DraftRequest> requests, RankMessage& message) {
  message.Add(std::ssize(requests));
  for (const DraftRequest& request : requests) {
    message.Add(request.row);
    message.Add(request.n_drafts);
  }
}

void TakeRequests(RankMessage& message, std::vector<DraftRequest>& requests) {
  requests.resize(message.TakeLength());
  for (DraftRequest& request : requests) {
    request.row = TakeSmall(message);
    request.n_drafts = message.Take();
  }
}

CacheShadow::CacheShadow(SequenceCache& cache)
    : cache_(cache), states_(static_cast<std::size_t>(cache.shape().n_sequences)) {
  const std::size_t width = cache.Table(BlockKind::kHistory, 0).size();
  for (std::vector<std::int32_t>& table : tables_) {
    table.assign(states_.size() * width, kNoBlock);
  }
  cache_.NoteCopies(&copies_);
}

CacheShadow::~CacheShadow() { cache_.NoteCopies(nullptr); }

// Adds the entries before `end` that have changed.
void CacheShadow::AddEntries(BlockKind kind, std::int32_t sequence, std::int64_t end,
                             RankMessage& message) {
  const std::span<const std::int32_t> found = cache_.Table(kind, sequence);
  const std::span<std::int32_t> known =
      std::span(tables_[static_cast<std::size_t>(kind)])
          .subspan(static_cast<std::size_t>(sequence) * found.size(), found.size());
  changed_.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(end); ++i) {
    if (known[i] != found[i]) {
      known[i] = found[i];
      changed_.insert(changed_.end(), {static_cast<std::int64_t>(i), found[i]});
    }
  }
  message.AddList(changed_);
}

void CacheShadow::AddChanges(const BatchView& batch, RankMessage& message) {
  message.Add(std::ssize(copies_));
  for (const CacheCopy& copy : copies_) {
    message.Add(static_cast<std::int64_t>(copy.what));
    message.Add(copy.data_rank);
    message.Add(copy.from);
    message.Add(copy.to);
  }
  copies_.clear();
  message.Add(std::ssize(batch.segments));
  for (const Segment& segment : batch.segments) {
    const SequenceState& state = cache_.state(segment.sequence);
    SequenceState& known = states_[static_cast<std::size_t>(segment.sequence)];
    message.Add(segment.sequence);
    message.Add(state.next_position);
    message.Add(state.earliest_next);
    message.Add(state.first_window);
    message.Add(state.end_block);
    const std::int64_t end = std::max(known.end_block, state.end_block);
    AddEntries(BlockKind::kHistory, segment.sequence, end, message);
    AddEntries(BlockKind::kWindow, segment.sequence, end, message);
    known = state;
  }
}

void TakeChanges(RankMessage& message, SequenceCache& cache) {
  for (std::size_t n = message.TakeLength(); n > 0; --n) {
    const auto what = static_cast<CacheCopy::What>(message.Take());
    const int data_rank = TakeSmall(message);
    const std::int32_t from = TakeSmall(message);
    cache.Run({what, data_rank, from, TakeSmall(message)});
  }
  for (std::size_t n = message.TakeLength(); n > 0; --n) {
    const std::int32_t sequence = TakeSmall(message);
    SequenceState state;
    state.next_position = message.Take();
    state.earliest_next = message.Take();
    state.first_window = message.Take();
    state.end_block = message.Take();
    cache.Follow(sequence, state);
    for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
      for (std::size_t left = message.TakeLength(); left > 1; left -= 2) {
        const std::int64_t i = message.Take();
        cache.FollowEntry(kind, sequence, i, TakeSmall(message));
      }
    }
  }
}

}  // namespace fathom
