// The router (docs/numerics.md 8).
#include "kernels/gpu/device/route.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

GPU_DEVICE float RouterScore(float logit) { return Sqrt(Softplus<GpuOps>(logit)); }

GPU_DEVICE void SortAscending(int32_t* ids, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const int32_t id = ids[i];
    int64_t place = i;
    for (; place > 0 && ids[place - 1] > id; --place) {
      ids[place] = ids[place - 1];
    }
    ids[place] = id;
  }
}

// Computes the weights of the chosen experts of one token, by one thread.
GPU_DEVICE void WeighExperts(const float* logits, const int32_t* ids, int64_t n, float scale,
                             float* weights) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    sum = sum + RouterScore(logits[ids[i]]);
  }
  for (int64_t i = 0; i < n; ++i) {
    weights[i] = Div(RouterScore(logits[ids[i]]), sum) * scale;
  }
}

// An expert and its score + bias. None: id -1.
struct Choice {
  float score = 0.0f;
  int32_t id = -1;
};

// The higher score wins, ties the lower id.
GPU_DEVICE bool IsBetter(const Choice& a, const Choice& b) {
  if (a.id < 0 || b.id < 0) return b.id < 0 && a.id >= 0;
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}

}  // namespace

GPU_KERNEL(Route, RouteArguments a) {
  const int64_t n = a.logits.cols;
  GPU_DYNAMIC_SHARED(float, scores, 0, n);
  GPU_DYNAMIC_SHARED(int32_t, taken, TileCount(4 * n, 16) * 16, n);
  GPU_SHARED(float, best_scores, kMaxBlockThreads);
  GPU_SHARED(int32_t, best_ids, kMaxBlockThreads);
  const float* const logits = a.logits.Row(BlockX());
  int32_t* const ids = a.ids.Row(BlockX());
  for (int64_t e = ThreadX(); e < n; e += BlockThreads()) {
    const float biased = RouterScore(logits[e]) + a.bias[e];
    scores[e] = biased == biased ? biased : kMinusInfinity;
    taken[e] = 0;
  }
  for (int64_t i = 0; i < a.ids.cols; ++i) {
    SyncBlock();
    Choice best;
    for (int64_t e = ThreadX(); e < n; e += BlockThreads()) {
      const Choice choice = {scores[e], static_cast<int32_t>(e)};
      if (taken[e] == 0 && IsBetter(choice, best)) {
        best = choice;
      }
    }
    best_scores[ThreadX()] = best.score;
    best_ids[ThreadX()] = best.id;
    SyncBlock();
    if (ThreadX() == 0) {
      for (int thread = 1; thread < BlockThreads(); ++thread) {
        const Choice choice = {best_scores[thread], best_ids[thread]};
        if (IsBetter(choice, best)) {
          best = choice;
        }
      }
      ids[i] = best.id;
      taken[best.id] = 1;
    }
  }
  if (ThreadX() == 0) {
    SortAscending(ids, a.ids.cols);
    WeighExperts(logits, ids, a.ids.cols, a.scale, a.weights.Row(BlockX()));
  }
}

GPU_KERNEL(RouteByToken, RouteByTokenArguments a) {
  const int64_t row = BlockX() * BlockThreads() + ThreadX();
  if (row >= a.logits.rows) return;
  Token token = a.tokens[row];
  if (token < 0 || token >= a.table.rows) {
    SetFault(a.fault, Fault::kTokenOutsideVocabulary, row);
    token = 0;
  }
  int32_t* const ids = a.ids.Row(row);
  for (int64_t i = 0; i < a.table.cols; ++i) {
    int64_t id = 0;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(a.table.Row(token) + i);
    for (int byte = 7; byte >= 0; --byte) {
      id = id << 8 | bytes[byte];
    }
    if (id < 0 || id >= a.logits.cols) {
      SetFault(a.fault, Fault::kUnknownExpertInTable, row);
      id = 0;
    }
    ids[i] = static_cast<int32_t>(id);
  }
  SortAscending(ids, a.table.cols);
  WeighExperts(a.logits.Row(row), ids, a.table.cols, a.scale, a.weights.Row(row));
}

}  // namespace fathom::kernels::gpu
