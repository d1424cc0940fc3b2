// The largest logit of each row, and the changes of logits by biases and penalties.
#include "kernels/gpu/device/block_reduce.h"
#include "kernels/gpu/device/sample_row.h"
#include "kernels/gpu/device/sampling.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Runs a block per tile. The first scan, over all rows, also finds logits that are not finite, and
// copies rows that will be changed; the second scan, over the changed rows, only finds the largest
// logit.
GPU_KERNEL(ScanLogits, SamplingArguments a) {
  GPU_SHARED(uint64_t, numbers, kMaxBlockThreads);
  const Tile tile = FindTile(a);
  const bool changes = a.rules[tile.row].changes_logits;
  if (a.changed_only && !changes) return;
  const float* const logits = a.changed_only ? a.changed.Row(tile.row) : a.logits.Row(tile.row);
  ScoredRow best = kNoScoredRow;
  int64_t first_bad = kNoToken;
  for (int64_t i = tile.first + ThreadX(); i < tile.end; i += BlockThreads()) {
    const float logit = logits[i];
    const ScoredRow scored = ToScoredRow(logit, i);
    best = scored < best ? scored : best;
    first_bad = !IsFinite(logit) && i < first_bad ? i : first_bad;
    if (changes && !a.changed_only) {
      a.changed.Row(tile.row)[i] = logit;
    }
  }
  best = SmallestOfBlock(best, numbers);
  LogitScan& scan = a.scans.Row(tile.row)[tile.index];
  if (!a.changed_only) {
    first_bad = static_cast<int64_t>(SmallestOfBlock(static_cast<uint64_t>(first_bad), numbers));
  }
  if (ThreadX() != 0) return;
  scan.best = best;
  if (!a.changed_only) {
    scan.first_bad = static_cast<Token>(first_bad);
  }
}

GPU_KERNEL(ChangeLogits, ChangeLogitsArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.n) return;
  const LogitChange change = a.changes[i];
  float& logit = a.logits.Row(change.row)[change.token];
  if (change.kind == LogitChange::Kind::kExclude) {
    logit = kExcludedLogit;
  } else if (change.kind == LogitChange::Kind::kBias) {
    logit = logit + change.bias;
  } else {
    logit = Penalize(logit, change.count, a.rules[change.row]);
  }
}

}  // namespace fathom::kernels::gpu
