// ForwardPass: a pass of a batch through the blocks: its rows, its activations and its failures.
// Passes can take turns between blocks, because nothing else keeps the state of a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv_cache/data_ranks.h"
#include "model/failed_sequences.h"
#include "model/local_rows.h"
#include "model/pass_progress.h"
#include "model/sequence_failure.h"
#include "model/token_position.h"
#include "model/workspace.h"

namespace fathom::model {

// The two kinds of passes of a step.
enum class Pass { kMain, kDraft };

// Allocated once, and used for pass after pass. Must not be moved. One thread at a time.
struct ForwardPass {
  explicit ForwardPass(Pass pass_kind) : kind(pass_kind) {}

  const Pass kind;
  // The memory of a main pass. A draft pass uses the workspace of the last main pass.
  std::optional<Workspace> workspace;

  BatchView whole;  // the batch of all processes, whose arrays stay valid until the pass ends
  LocalRows local;
  std::vector<TokenPosition> positions;  // of all rows of `whole`, after the pass
  std::int64_t next_layer = 0;
  bool is_scan = false;    // a store that reads experts sets it: the pass computes prompts
  ShouldStop should_stop;  // may be empty; ends the pass between experts that are read

  FailedSequences failed;
  // Experts that this process cannot read for tokens of a main pass, where other processes know
  // which sequences these tokens belong to. The rows of the tokens are missing.
  std::vector<ExpertFailure> expert_failures;

  // Makes room for batches of `max_tokens` in so many sequences.
  void Reserve(std::int64_t max_tokens, std::int64_t max_sequences, const DataRanks& data) {
    positions.reserve(static_cast<std::size_t>(max_tokens));
    if (data.n > 1) local.Reserve(max_tokens, max_sequences);
  }
  // Begins a pass without failures. The positions stay until the pass has run.
  void Begin(const BatchView& batch, const DataRanks& data) {
    whole = batch;
    local.Assign(batch, data);
    should_stop = {};
    failed.Begin(batch);
    expert_failures.clear();
  }
};

}  // namespace fathom::model
