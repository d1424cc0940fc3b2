// Chooses the token of each row: the largest logit, or the largest sum of z and noise.
#include "kernels/gpu/device/block_reduce.h"
#include "kernels/gpu/device/sample_row.h"
#include "kernels/gpu/device/sampling.h"
#include "kernels/gpu/gpu.h"
#include "sampling/gumbel_noise.h"

namespace fathom::kernels::gpu {
namespace {

// Smaller for a larger score; zeros of both signs are equal.
constexpr uint64_t ScoreOrder(double score) {
  const auto bits = std::bit_cast<uint64_t>(score + 0.0);
  return bits >> 63 != 0 ? bits : 0x7FFFFFFFFFFFFFFFu - bits;
}

// The z of the tokens of a row that may be drawn.
struct DrawnRow {
  SampledRow row;
  const uint32_t* keys = nullptr;  // null: all tokens may be drawn
  OrderedToken last = kLastOfAll;
  float temperature = 1.0f;

  GPU_DEVICE float Logit(int64_t i) const {
    if (keys == nullptr) return ScaledLogit(row.logits[i], row.largest, temperature);
    return InOrder(keys[i], i) <= last ? KeyToScaledLogit(keys[i]) : kExcludedLogit;
  }
};

GPU_DEVICE DrawnRow FindDrawnRow(const SamplingArguments& a, int64_t row) {
  DrawnRow drawn;
  drawn.row = FindRow(a, row);
  drawn.temperature = a.rules[row].temperature;
  if (Truncates(a.rules[row])) {
    drawn.keys = a.keys.Row(row);
    drawn.last = a.kept[row].last;
  }
  return drawn;
}

// Tokens are offered in fours, whose noise is computed together. Every thread offers the best token
// first, so that most of the vocabulary cannot win any more.
GPU_DEVICE NoisyMaximum DrawFromTile(const DrawnRow& drawn, const Tile& tile,
                                     const GumbelNoise& noise) {
  NoisyMaximum maximum;
  const auto best = static_cast<uint32_t>(drawn.row.best);
  if (InOrder(0, best) <= drawn.last) {
    const auto bits = noise.Block(best / 4);
    const uint32_t low = best % 2 != 0 ? bits[1] : bits[0];
    const uint32_t high = best % 2 != 0 ? bits[3] : bits[2];
    maximum.Offer(0.0f, drawn.row.best, best % 4 >= 2 ? high : low);
  }
  for (int64_t four = tile.first / 4 + ThreadX(); 4 * four < tile.end; four += BlockThreads()) {
    float z[4];
    float largest = kExcludedLogit;
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int64_t token = 4 * four + i;
      z[i] = token < tile.end ? drawn.Logit(token) : kExcludedLogit;
      largest = z[i] > largest ? z[i] : largest;
    }
    if (largest == kExcludedLogit || maximum.OutOfReach(largest)) continue;
    const auto bits = noise.Block(static_cast<uint32_t>(four));
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (z[i] != kExcludedLogit) {
        maximum.Offer(z[i], static_cast<Token>(4 * four + i), bits[i]);
      }
    }
  }
  return maximum;
}

}  // namespace

// Runs a block per tile.
GPU_KERNEL(DrawTokens, SamplingArguments a) {
  GPU_SHARED(uint64_t, numbers, kMaxBlockThreads);
  static_assert(kTileTokens % 4 == 0);
  const Tile tile = FindTile(a);
  const SamplingRule& rule = a.rules[tile.row];
  if (rule.is_greedy) return;
  const DrawnRow drawn = FindDrawnRow(a, tile.row);
  if (!drawn.row.HasToken()) return;
  const NoisyMaximum maximum =
      DrawFromTile(drawn, tile, GumbelNoise(rule.seed, rule.position, rule.choice));
  const uint64_t order = ScoreOrder(maximum.score());
  const uint64_t best = SmallestOfBlock(order, numbers);
  const auto token = static_cast<uint64_t>(order == best ? maximum.token() : kNoToken);
  const uint64_t lowest = SmallestOfBlock(token, numbers);
  if (ThreadX() == 0) {
    a.draws.Row(tile.row)[tile.index] = {best, static_cast<Token>(lowest)};
  }
}

// Runs a thread per row.
GPU_KERNEL(TakeTokens, SamplingArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.logits.rows) return;
  const SampledRow row = FindRow(a, i);
  if (row.first_bad != kNoToken) {
    a.choices[i] = {ChoiceOutcome::kNotFinite, row.first_bad, a.logits.Row(i)[row.first_bad]};
    return;
  }
  if (!IsFinite(row.largest)) {
    a.choices[i] = {ChoiceOutcome::kNothingIsLeft, row.best, row.largest};
    return;
  }
  Draw draw = {0, row.best};
  if (!a.rules[i].is_greedy) {
    draw = a.draws.Row(i)[0];
    for (int64_t tile = 1; tile < a.draws.cols; ++tile) {
      const Draw other = a.draws.Row(i)[tile];
      if (other.order < draw.order || (other.order == draw.order && other.token < draw.token)) {
        draw = other;
      }
    }
  }
  a.choices[i] = {ChoiceOutcome::kToken, draw.token, 0.0f};
}

}  // namespace fathom::kernels::gpu
