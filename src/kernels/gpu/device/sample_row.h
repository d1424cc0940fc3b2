// A row, in the form that the kernels that choose tokens read.
#pragma once

#include <bit>

#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/sampling.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

inline constexpr uint32_t kDroppedKey = 0xFFFFFFFFu;
inline constexpr OrderedToken kLastOfAll = 0x7F800000FFFFFFFFu;  // after z = -inf

// z <= 0; zeros of both signs are equal.
constexpr uint32_t SortKey(float z) { return std::bit_cast<uint32_t>(0.0f - z); }
constexpr float KeyToScaledLogit(uint32_t key) { return -std::bit_cast<float>(key); }
constexpr OrderedToken InOrder(uint32_t key, int64_t token) {
  return OrderedToken{key} << 32 | static_cast<uint32_t>(token);
}

GPU_DEVICE bool IsFinite(float x) { return x - x == 0.0f; }

// The part of a row that a block reads, of a grid with a block per tile.
struct Tile {
  int64_t row = 0;
  int64_t index = 0;
  int64_t first = 0;
  int64_t end = 0;
};
GPU_DEVICE Tile FindTile(const SamplingArguments& a) {
  const int64_t row = BlockX() / a.scans.cols;
  const int64_t index = BlockX() % a.scans.cols;
  const int64_t first = index * kTileTokens;
  const int64_t end = first + kTileTokens;
  return {row, index, first, end < a.logits.cols ? end : a.logits.cols};
}

struct SampledRow {
  const float* logits = nullptr;  // the changed logits, if the row has changes
  float largest = 0.0f;
  Token best = 0;              // the lowest token with this logit
  Token first_bad = kNoToken;  // among the logits before their changes

  GPU_DEVICE bool HasToken() const { return first_bad == kNoToken && IsFinite(largest); }
};
GPU_DEVICE SampledRow FindRow(const SamplingArguments& a, int64_t row) {
  SampledRow found;
  found.logits = a.rules[row].changes_logits ? a.changed.Row(row) : a.logits.Row(row);
  ScoredRow best = kNoScoredRow;
  for (int64_t tile = 0; tile < a.scans.cols; ++tile) {
    const LogitScan& scan = a.scans.Row(row)[tile];
    best = scan.best < best ? scan.best : best;
    found.first_bad = scan.first_bad < found.first_bad ? scan.first_bad : found.first_bad;
  }
  found.best = ToRow(best);
  found.largest = found.logits[found.best];
  return found;
}

// Returns true if min-p, top-k or top-p drop tokens of the row.
GPU_DEVICE bool Truncates(const SamplingRule& rule) { return rule.truncates && !rule.is_greedy; }

}  // namespace fathom::kernels::gpu
