// The router (docs/numerics.md 8).
#include "kernels/gpu/device/route.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

GPU_DEVICE float RouterScore(float logit) { return Sqrt(Softplus<GpuOps>(logit)); }

// Writes the experts that a token has chosen in ascending order of their ids, of which one can come
// twice, and their weights. Thread i < n has an id and its score. All threads of the block call it.
GPU_DEVICE void WriteChosen(int32_t id, float score, int64_t n, float scale, int32_t* ids,
                            float* weights) {
  GPU_SHARED(int32_t, unordered, kMostChosen);
  GPU_SHARED(float, scores, kMostChosen);
  const int self = ThreadX();
  if (self < n) unordered[self] = id;
  SyncBlock();
  if (self < n) {
    int place = 0;
    for (int i = 0; i < n; ++i) {
      const int32_t other = unordered[i];
      place += other < id || (other == id && i < self) ? 1 : 0;
    }
    scores[place] = score;
    ids[place] = id;
  }
  SyncBlock();
  if (self < n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
      sum = sum + scores[i];
    }
    weights[self] = Div(scores[self], sum) * scale;
  }
}

// An expert and its score + bias, which is not NaN.
struct Choice {
  float score = kMinusInfinity;
  int32_t id = 0x7FFFFFFF;  // no expert: any other is better
};

// The higher score wins, ties the lower id.
GPU_DEVICE bool IsBetter(const Choice& a, const Choice& b) {
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}

// Returns the best choice of the wave to all of its threads.
GPU_DEVICE Choice BestOfWave(Choice best) {
  for (int mask = WaveSize() / 2; mask > 0; mask /= 2) {
    const Choice other = {ShuffleXor(best.score, mask), ShuffleXor(best.id, mask)};
    if (IsBetter(other, best)) best = other;
  }
  return best;
}

// Stores the ids of the experts with the highest of n `biased` scores in chosen[0 ... n_chosen -
// 1], by one wave. A thread owns every WaveSize()-th score, and sets it to NaN, which is better
// than nothing, when the expert has been chosen.
template <class Scores, class Ids>
GPU_DEVICE void ChooseByWave(int64_t n, int64_t n_chosen, Scores& biased, Ids& chosen) {
  const auto best_of_thread = [&] {
    Choice best;
    for (int64_t e = WaveLane(); e < n; e += WaveSize()) {
      const Choice choice = {biased[e], static_cast<int32_t>(e)};
      if (IsBetter(choice, best)) best = choice;
    }
    return best;
  };
  Choice own = best_of_thread();
  for (int64_t i = 0; i < n_chosen; ++i) {
    const Choice best = BestOfWave(own);
    if (best.id == own.id) {
      chosen[i] = best.id;
      biased[best.id] = __builtin_nanf("");
      own = best_of_thread();
    }
  }
}

}  // namespace

GPU_KERNEL(Route, RouteArguments a) {
  const int64_t n = a.logits.cols;
  const int64_t n_chosen = a.ids.cols;
  GPU_DYNAMIC_SHARED(float, biased, 0, n);
  GPU_DYNAMIC_SHARED(float, scores, TileCount(4 * n, 16) * 16, n);
  GPU_SHARED(int32_t, chosen, kMostChosen);
  const float* const logits = a.logits.Row(BlockX());
  for (int64_t e = ThreadX(); e < n; e += BlockThreads()) {
    const float score = RouterScore(logits[e]);
    const float sum = score + a.bias[e];
    scores[e] = score;
    biased[e] = sum == sum ? sum : kMinusInfinity;
  }
  SyncBlock();
  if (ThreadX() < WaveSize()) ChooseByWave(n, n_chosen, biased, chosen);
  SyncBlock();
  const int32_t id = ThreadX() < n_chosen ? chosen[ThreadX()] : 0;
  WriteChosen(id, scores[id], n_chosen, a.scale, a.ids.Row(BlockX()), a.weights.Row(BlockX()));
}

GPU_KERNEL(RouteByToken, RouteByTokenArguments a) {
  const int64_t row = BlockX();
  int32_t chosen = 0;
  if (ThreadX() < a.table.cols) {
    const Token token = a.tokens[row];
    const bool has_row = token >= 0 && token < a.table.rows;
    const auto* const bytes =
        reinterpret_cast<const uint8_t*>(a.table.Row(has_row ? token : 0) + ThreadX());
    int64_t id = 0;
    for (int byte = 7; byte >= 0; --byte) {
      id = id << 8 | bytes[byte];
    }
    const bool has_expert = id >= 0 && id < a.logits.cols;
    if (!has_row) {
      SetFault(a.fault, Fault::kTokenOutsideVocabulary, row);
    } else if (!has_expert) {
      SetFault(a.fault, Fault::kUnknownExpertInTable, row);
    }
    chosen = has_expert ? static_cast<int32_t>(id) : 0;
  }
  WriteChosen(chosen, RouterScore(a.logits.Row(row)[chosen]), a.table.cols, a.scale, a.ids.Row(row),
              a.weights.Row(row));
}

}  // namespace fathom::kernels::gpu
