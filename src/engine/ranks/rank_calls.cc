#include "engine/ranks/rank_calls.h"

#include <algorithm>

namespace fathom::engine {

void WriteSizes(const ModelOptions& options, RankMessage& message) {
  message.Write(options.max_sequences, options.max_context, options.max_batch_tokens,
                options.max_logit_rows, options.with_draft, options.kv_memory_bytes);
}

void ReadSizes(RankMessage& message, ModelOptions& options) {
  message.Read(options.max_sequences, options.max_context, options.max_batch_tokens,
               options.max_logit_rows, options.with_draft, options.kv_memory_bytes);
}

void WriteBatch(const BatchView& batch, RankMessage& message) {
  message.Write(batch.segments.size());
  for (const Segment& segment : batch.segments) {
    message.Write(segment.sequence, segment.first_position);
    message.WriteList(batch.tokens.subspan(static_cast<std::size_t>(segment.first_row),
                                           static_cast<std::size_t>(segment.n_tokens)));
  }
}

void ReadBatch(RankMessage& message, Batch& batch) {
  batch.Clear();
  std::vector<Token> tokens;
  for (std::size_t n = message.ReadLength(); n > 0; --n) {
    std::int32_t sequence = 0, first_position = 0;
    message.Read(sequence, first_position);
    message.ReadList(tokens);
    batch.Add(sequence, first_position, tokens);
  }
}

void WriteRequests(std::span<const DraftRequest> requests, RankMessage& message) {
  message.Write(requests.size());
  for (const DraftRequest& request : requests) {
    message.Write(request.row, request.n_drafts);
  }
}

void ReadRequests(RankMessage& message, std::vector<DraftRequest>& requests) {
  requests.resize(message.ReadLength());
  for (DraftRequest& request : requests) {
    message.Read(request.row, request.n_drafts);
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

// Writes the entries before `end` that have changed.
void CacheShadow::WriteEntries(BlockKind kind, std::int32_t sequence, std::int64_t end,
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
  message.WriteList(changed_);
}

void CacheShadow::WriteChanges(const BatchView& batch, RankMessage& message) {
  message.Write(copies_.size());
  for (const CacheCopy& copy : copies_) {
    message.Write(copy.what, copy.data_rank, copy.from, copy.to);
  }
  copies_.clear();
  message.Write(batch.segments.size());
  for (const Segment& segment : batch.segments) {
    const SequenceState& state = cache_.state(segment.sequence);
    SequenceState& known = states_[static_cast<std::size_t>(segment.sequence)];
    message.Write(segment.sequence, state.next_position, state.earliest_next, state.first_window,
                  state.end_block, state.n_starts);
    const std::int64_t end = std::max(known.end_block, state.end_block);
    WriteEntries(BlockKind::kHistory, segment.sequence, end, message);
    WriteEntries(BlockKind::kWindow, segment.sequence, end, message);
    known = state;
  }
}

void ReadChanges(RankMessage& message, SequenceCache& cache) {
  for (std::size_t n = message.ReadLength(); n > 0; --n) {
    CacheCopy copy;
    message.Read(copy.what, copy.data_rank, copy.from, copy.to);
    cache.Run(copy);
  }
  for (std::size_t n = message.ReadLength(); n > 0; --n) {
    std::int32_t sequence = 0;
    SequenceState state;
    message.Read(sequence, state.next_position, state.earliest_next, state.first_window,
                 state.end_block, state.n_starts);
    cache.Follow(sequence, state);
    for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
      for (std::size_t left = message.ReadLength(); left > 1; left -= 2) {
        std::int64_t i = 0;
        std::int32_t block = 0;
        message.Read(i, block);
        cache.FollowEntry(kind, sequence, i, block);
      }
    }
  }
}

}  // namespace fathom::engine
