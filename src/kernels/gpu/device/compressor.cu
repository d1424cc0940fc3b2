// Compressors (docs/numerics.md 6).
#include "kernels/gpu/device/compressor.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/index_vector.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/gpu.h"
#include "kernels/rope_angle.h"

namespace fathom::kernels::gpu {
namespace {

// The rows of a compressor's inputs for one position; nulls where there are none.
struct InputRows {
  const float* values = nullptr;
  const float* scores = nullptr;
};

// Returns the stored inputs of a position among the last of its block; null: no block.
GPU_DEVICE float* BoundaryValues(const CompressorCache& cache, int32_t sequence, int64_t position) {
  const int64_t row = position / kBlockTokens * cache.ratio + position % cache.ratio;
  return reinterpret_cast<float*>(cache.boundary_rows.Row(sequence, row));
}

// Returns the inputs of `position`, from the batch if it is there, else from the tail or the end of
// an earlier block.
GPU_DEVICE InputRows InputsAt(const CompressArguments& a, const Segment& segment,
                              int64_t position) {
  if (position < 0) return {};
  if (position >= segment.first_position) {
    const int64_t row = segment.first_row + position - segment.first_position;
    return {a.values.Row(row), a.scores.Row(row)};
  }
  if (a.cache.boundary_rows.row_bytes > 0 &&
      position / kBlockTokens < segment.first_position / kBlockTokens) {
    const float* const values = BoundaryValues(a.cache, segment.sequence, position);
    if (values == nullptr) {
      SetFault(a.fault, Fault::kBoundaryNotCached, segment.first_row);
      return {};
    }
    return {values, values + a.cache.tail_values.cols / 2};
  }
  const int64_t row = segment.sequence * a.cache.tail_slots + position % a.cache.tail_slots;
  return {a.cache.tail_values.Row(row), a.cache.tail_scores.Row(row)};
}

// Computes the softmax over the slots of one channel, applied to their values. Slots of the second
// window read the second half of the channels.
template <class Values, class Scores>
GPU_DEVICE float Pool(const CompressArguments& a, const Values& values, const Scores& scores,
                      int64_t channel) {
  const int n = static_cast<int>(a.cache.Span());
  const auto column = [&](int s) { return channel + a.width * (s / a.cache.ratio); };
  float maximum = kMinusInfinity;
  for (int s = 0; s < n; ++s) {
    const float* const row = scores[s];
    if (row != nullptr) {
      const float score = row[column(s)];
      maximum = maximum < score ? score : maximum;
    }
  }
  const auto p = [&](int s) {
    const float* const row = scores[s];
    return row == nullptr ? 0.0f : Exp<GpuOps>(row[column(s)] - maximum);
  };
  float sum = 0.0f;
  for (int s = 0; s < n; ++s) {
    sum = sum + p(s);
  }
  float pooled = 0.0f;
  for (int s = 0; s < n; ++s) {
    const float* const row = values[s];
    const float value = row == nullptr ? 0.0f : row[column(s)];
    pooled = pooled + Div(p(s), sum) * value;
  }
  return pooled;
}

}  // namespace

GPU_KERNEL(AddPositionScores, CompressArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.scores.rows * a.scores.cols) return;
  const int64_t position = a.batch.positions[i / a.scores.cols];
  const float ape = a.ape[position % a.cache.ratio * a.scores.cols + i % a.scores.cols];
  a.scores.data[i] = a.scores.data[i] + ape;
}

GPU_KERNEL(CompressRows, CompressArguments a) {
  GPU_SHARED(const float*, values, kMaxSpan);
  GPU_SHARED(const float*, scores, kMaxSpan);
  GPU_SHARED(float, factor, 1);
  GPU_SHARED(float, rotated, kIndexDim);
  GPU_DYNAMIC_SHARED(Bf16, x, 0, a.width);
  const Segment& segment = FindSegment(a.batch, BlockX());
  const int64_t end = a.batch.positions[BlockX()] + int64_t{1};
  const int64_t w = end / a.cache.ratio - 1;
  if (end % a.cache.ratio != 0 || !a.cache.share.Has(w)) return;
  for (int s = ThreadX(); s < a.cache.Span(); s += BlockThreads()) {
    const InputRows rows = InputsAt(a, segment, end - a.cache.Span() + s);
    values[s] = rows.values;
    scores[s] = rows.scores;
  }
  SyncBlock();
  for (int64_t channel = ThreadX(); channel < a.width; channel += BlockThreads()) {
    x[channel] = ToBf16(Pool(a, values, scores, channel));
  }
  SyncBlock();
  if (ThreadX() < WaveSize()) {
    const auto number = [&](int64_t i) { return ToFloat(x[i]); };
    const float r = InverseRoot(ProductOfGroup(a.width, number, number), a.width, a.norm_eps);
    if (ThreadX() == 0) {
      factor[0] = r;
    }
  }
  SyncBlock();
  const float r = factor[0];
  const int64_t plain = a.width - 2 * a.pairs;
  const auto normal = [&](int64_t i) { return ToBf16(ToFloat(a.norm[i]) * (ToFloat(x[i]) * r)); };
  for (int64_t i = ThreadX(); i < plain; i += BlockThreads()) {
    x[i] = normal(i);
  }
  for (int64_t k = ThreadX(); k < a.pairs; k += BlockThreads()) {
    float cos = 0.0f;
    float sin = 0.0f;
    RopeAngle<GpuDoubleOps>(w * a.cache.ratio, a.frequencies[k], &cos, &sin);
    const int64_t i = plain + 2 * k;
    const RotatedPair pair = Rotate(normal(i), normal(i + 1), cos, sin);
    x[i] = pair.x;
    x[i + 1] = pair.y;
  }
  SyncBlock();
  const int64_t place = a.cache.share.ToPlace(w);
  if (a.cache.IsPacked()) {
    PackIndexVector(x, rotated, a.cache.packed_rows.Row(segment.sequence, place));
  } else {
    PackKeyOfBlock([&](int64_t i) { return static_cast<Bf16>(x[i]); }, a.cache.rows.layout,
                   a.cache.rows.Row(segment.sequence, place));
  }
}

GPU_KERNEL(KeepInputs, CompressArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  const int64_t inputs = a.scores.cols;
  if (i >= a.scores.rows * inputs) return;
  const int64_t row = i / inputs;
  const int64_t channel = i % inputs;
  const Segment& segment = FindSegment(a.batch, row);
  const int64_t position = a.batch.positions[row];
  const CompressorCache& cache = a.cache;
  const int64_t end = static_cast<int64_t>(segment.first_position) + segment.n_tokens;
  if (position >= end - cache.tail_slots) {
    const int64_t slot = segment.sequence * cache.tail_slots + position % cache.tail_slots;
    cache.tail_values.Row(slot)[channel] = a.values.data[i];
    cache.tail_scores.Row(slot)[channel] = a.scores.data[i];
  }
  if (cache.IsBoundary(position) && channel < inputs / 2) {
    float* const kept = BoundaryValues(cache, segment.sequence, position);
    if (kept != nullptr) {
      kept[channel] = a.values.data[i];
      kept[inputs / 2 + channel] = a.scores.data[i];
    }
  }
}

}  // namespace fathom::kernels::gpu
