// min-p, top-k and top-p: find the last token, in the order of truncation, that may be drawn.
//
// The host sums the weights of bins and sorts one of them (sampling/truncation.cc); here the last
// key is found two bits at a time. Weights are integers, so both keep the same tokens.
#include "kernels/gpu/device/block_reduce.h"
#include "kernels/gpu/device/sample_row.h"
#include "kernels/gpu/device/sampling.h"
#include "kernels/gpu/gpu.h"
#include "sampling/probability_weight.h"

namespace fathom::kernels::gpu {
namespace {

constexpr int kDigits = 3;  // sums for the values 0 ... 3 of two bits; the last needs none

// A key, and the weight of all tokens with smaller keys.
struct FoundKey {
  uint32_t key = 0;
  uint64_t before = 0;
};

// Finds the smallest key such that the weights of all tokens up to it are at least `wanted`, which
// is at most the weight of all tokens.
template <class ReadWeight, class Shared>
GPU_DEVICE FoundKey FindKey(const uint32_t* keys, int64_t n, uint64_t wanted,
                            const ReadWeight& read_weight, Shared& shared) {
  FoundKey found;
  for (int shift = 30; shift >= 0; shift -= 2) {
    uint64_t sums[kDigits] = {};
    for (int64_t i = ThreadX(); i < n; i += BlockThreads()) {
      const uint32_t key = keys[i];
      if (uint64_t{key} >> (shift + 2) != uint64_t{found.key} >> (shift + 2)) continue;
      const uint32_t digit = key >> shift & 3;
      const uint64_t weight = read_weight(i);
      GPU_UNROLL
      for (uint32_t d = 0; d < kDigits; ++d) {
        sums[d] += digit == d ? weight : 0;
      }
    }
    SumOfBlock(sums, shared);
    uint32_t digit = 0;
    GPU_UNROLL
    for (uint32_t d = 0; d < kDigits; ++d) {
      if (digit == d && found.before + sums[d] < wanted) {
        found.before += sums[d];
        digit = d + 1;
      }
    }
    found.key |= digit << shift;
  }
  return found;
}

// Returns the count-th token with this key, count >= 1; so many must exist.
template <class Shared>
GPU_DEVICE Token FindTie(const uint32_t* keys, int64_t n, uint32_t key, uint64_t count,
                         Shared& shared) {
  // Every thread handles neighbouring tokens.
  const int64_t first = n * ThreadX() / BlockThreads();
  const int64_t end = n * (ThreadX() + 1) / BlockThreads();
  uint64_t ties = 0;
  for (int64_t i = first; i < end; ++i) {
    ties += keys[i] == key ? 1 : 0;
  }
  SyncBlock();
  shared[ThreadX()] = ties;
  SyncBlock();
  if (ThreadX() == 0) {
    int owner = 0;
    uint64_t left = count;
    for (uint64_t found = shared[0]; found < left; found = shared[owner]) {
      left -= found;
      ++owner;
    }
    shared[0] = static_cast<uint64_t>(owner);
    shared[1] = left;
  }
  SyncBlock();
  const uint64_t owner = shared[0];
  uint64_t left = shared[1];
  SyncBlock();
  if (owner == static_cast<uint64_t>(ThreadX())) {
    int64_t i = first;
    for (;; ++i) {
      left -= keys[i] == key ? 1 : 0;
      if (left == 0) break;
    }
    shared[0] = static_cast<uint64_t>(i);
  }
  SyncBlock();
  const uint64_t token = shared[0];
  return static_cast<Token>(token);
}

GPU_DEVICE uint64_t WeightOfKey(uint32_t key, double largest) {
  return ProbabilityWeight(static_cast<double>(KeyToScaledLogit(key)), largest);
}

GPU_DEVICE double LargestKeptWeight(const KeptTokens& kept) {
  return LargestWeight(static_cast<size_t>(kept.n));
}

}  // namespace

// Runs a block per tile, which writes the keys of its candidates, and their number.
GPU_KERNEL(OrderTokens, SamplingArguments a) {
  GPU_SHARED(uint64_t, numbers, kMaxBlockThreads);
  const Tile tile = FindTile(a);
  const SamplingRule& rule = a.rules[tile.row];
  if (!Truncates(rule)) return;
  const SampledRow row = FindRow(a, tile.row);
  if (!row.HasToken()) return;
  uint32_t* const keys = a.keys.Row(tile.row);
  uint64_t count[1] = {};
  for (int64_t i = tile.first + ThreadX(); i < tile.end; i += BlockThreads()) {
    const float logit = row.logits[i];
    const float z = ScaledLogit(logit, row.largest, rule.temperature);
    const bool is_dropped = logit == kExcludedLogit || static_cast<double>(z) < rule.lowest;
    keys[i] = is_dropped ? kDroppedKey : SortKey(z);
    count[0] += is_dropped ? 0 : 1;
  }
  SumOfBlock(count, numbers);
  if (ThreadX() == 0) {
    a.counts.Row(tile.row)[tile.index] = static_cast<int32_t>(count[0]);
  }
}

// Runs a block per row.
GPU_KERNEL(KeepTopK, SamplingArguments a) {
  GPU_SHARED(uint64_t, numbers, kDigits * kMaxBlockThreads);
  const int64_t row = BlockX();
  const SamplingRule& rule = a.rules[row];
  if (!Truncates(rule) || !FindRow(a, row).HasToken()) return;
  int64_t n = 0;
  for (int64_t tile = 0; tile < a.counts.cols; ++tile) {
    n += a.counts.Row(row)[tile];
  }
  KeptTokens kept = {kLastOfAll, n};
  if (rule.top_k > 0 && rule.top_k < n) {
    const uint32_t* const keys = a.keys.Row(row);
    const auto wanted = static_cast<uint64_t>(rule.top_k);
    const FoundKey found = FindKey(
        keys, a.keys.cols, wanted, [](int64_t) { return uint64_t{1}; }, numbers);
    const Token token = FindTie(keys, a.keys.cols, found.key, wanted - found.before, numbers);
    kept = {InOrder(found.key, token), rule.top_k};
  }
  if (ThreadX() == 0) {
    a.kept[row] = kept;
  }
}

// Runs a block per tile.
GPU_KERNEL(WeighTokens, SamplingArguments a) {
  const Tile tile = FindTile(a);
  const SamplingRule& rule = a.rules[tile.row];
  if (!Truncates(rule) || rule.top_p >= 1 || !FindRow(a, tile.row).HasToken()) return;
  const KeptTokens kept = a.kept[tile.row];
  const double largest = LargestKeptWeight(kept);
  for (int64_t i = tile.first + ThreadX(); i < tile.end; i += BlockThreads()) {
    const uint32_t key = a.keys.Row(tile.row)[i];
    a.weights.Row(tile.row)[i] = InOrder(key, i) <= kept.last ? WeightOfKey(key, largest) : 0;
  }
}

// Runs a block per row.
GPU_KERNEL(KeepTopP, SamplingArguments a) {
  GPU_SHARED(uint64_t, numbers, kDigits * kMaxBlockThreads);
  const int64_t row = BlockX();
  const SamplingRule& rule = a.rules[row];
  if (!Truncates(rule) || rule.top_p >= 1 || !FindRow(a, row).HasToken()) return;
  const int64_t n = a.keys.cols;
  const uint64_t* const weights = a.weights.Row(row);
  uint64_t total[1] = {};
  for (int64_t i = ThreadX(); i < n; i += BlockThreads()) {
    total[0] += weights[i];
  }
  SumOfBlock(total, numbers);
  const uint64_t wanted = WeightOfTopP(rule.top_p, total[0]);
  if (wanted > total[0]) return;  // only by rounding: nothing is dropped
  const uint32_t* const keys = a.keys.Row(row);
  const FoundKey found = FindKey(
      keys, n, wanted, [weights](int64_t i) { return weights[i]; }, numbers);
  const uint64_t weight = WeightOfKey(found.key, LargestKeptWeight(a.kept[row]));
  const uint64_t ties = (wanted - found.before + weight - 1) / weight;
  const Token token = FindTie(keys, n, found.key, ties, numbers);
  if (ThreadX() == 0) {
    a.kept[row].last = InOrder(found.key, token);
  }
}

}  // namespace fathom::kernels::gpu
