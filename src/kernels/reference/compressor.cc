// Compressors (docs/numerics.md 6; docs/spec/model.md 5.7).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/math.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/reference/vectors.h"
#include "kernels/rope.h"

namespace fathom::kernels {
namespace {

// The compressor's inputs of one token: value and score per channel [overlap * width]. Null for the
// positions before the sequence.
struct Slot {
  const float* values = nullptr;
  const float* scores = nullptr;
};

// Returns the inputs of `position`, from the batch if it is there, else from the tail.
Slot SlotAt(const CompressorInput& input, const Segment& segment, const CompressorCache& cache,
            std::int64_t position, FaultWord& fault) {
  if (position < 0) return {};
  if (position >= segment.first_position) {
    const std::int64_t row = segment.first_row + position - segment.first_position;
    return {input.values.Row(row), input.scores.Row(row)};
  }
  const CompressorInputs kept = cache.Before(segment.sequence, position, segment.first_position);
  if (kept.values == nullptr) {
    fault.Set(Fault::kBoundaryNotCached, segment.first_row);
  }
  return {kept.values, kept.scores};
}

// Computes the softmax over the slots of one channel, applied to their values. Slot s of n reads
// column read_channel(s).
template <class ReadChannel>
float Pool(const std::vector<Slot>& slots, const ReadChannel& read_channel) {
  float maximum = kMinusInfinity;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].scores != nullptr) {
      maximum = std::max(maximum, slots[s].scores[read_channel(s)]);
    }
  }
  const auto p = [&](std::size_t s) {
    return slots[s].scores == nullptr ? 0.0f
                                      : Exp<ScalarOps>(slots[s].scores[read_channel(s)] - maximum);
  };
  float sum = 0.0f;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    sum = sum + p(s);
  }
  float pooled = 0.0f;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const float value = slots[s].values == nullptr ? 0.0f : slots[s].values[read_channel(s)];
    pooled = pooled + p(s) / sum * value;
  }
  return pooled;
}

// Makes row `w` of the segment's sequence and stores it.
void MakeRow(const CompressorInput& input, const Segment& segment, std::int64_t w,
             const CompressorCache& cache, FaultWord& fault) {
  std::vector<Slot> slots;
  const std::int64_t end = (w + 1) * cache.ratio;
  for (std::int64_t position = end - cache.Span(); position < end; ++position) {
    slots.push_back(SlotAt(input, segment, cache, position, fault));
  }
  const std::int64_t width = std::ssize(input.norm);
  std::vector<Bf16> row(static_cast<std::size_t>(width));
  for (std::int64_t channel = 0; channel < width; ++channel) {
    // With two windows, the slots of the second window read the second half of the channels.
    row[static_cast<std::size_t>(channel)] = ToBf16(Pool(slots, [&](std::size_t s) {
      return channel + width * (static_cast<std::int64_t>(s) / cache.ratio);
    }));
  }
  NormalizeRow(row.data(), input.norm.data(), input.norm_eps, width, row.data());
  const std::int64_t pairs = std::ssize(input.frequencies);
  std::vector<float> angles(static_cast<std::size_t>(2 * pairs));
  RopeAngles(w * cache.ratio, input.frequencies, angles.data(), angles.data() + pairs);
  const std::int64_t plain = width - 2 * pairs;
  RotatePairs(row.data() + plain, pairs, angles.data(), angles.data() + pairs);
  if (cache.IsPacked()) {
    RotateHadamard(row.data());
    PackFp4(row.data(), cache.packed_rows.Row(segment.sequence, cache.share.ToPlace(w)));
  } else {
    PackKey(row.data(), cache.rows.layout,
            cache.rows.Row(segment.sequence, cache.share.ToPlace(w)));
  }
}

}  // namespace

struct ReferenceBackend::CompressorOperations {
  ReferenceBackend& self;

  void Compute(const CompressOp& op) {
    const std::int64_t inputs = op.input.scores.cols;
    for (const Segment& segment : op.batch.segments) {
      const std::int64_t first = segment.first_position;
      const std::int64_t end = first + segment.n_tokens;
      for (std::int64_t position = first; position < end; ++position) {
        float* scores = op.input.scores.Row(segment.first_row + position - first);
        for (std::int64_t i = 0; i < inputs; ++i) {
          scores[i] = scores[i] + op.input.ape[position % op.cache.ratio * inputs + i];
        }
      }
      Check(end / op.cache.ratio <= op.cache.Capacity(),
            "Compress: more rows than the cache holds");
      for (std::int64_t w = first / op.cache.ratio; w < end / op.cache.ratio; ++w) {
        if (op.cache.share.Has(w)) {
          MakeRow(op.input, segment, w, op.cache, self.fault_);
        }
      }
      for (std::int64_t position = first; position < end; ++position) {
        const Slot slot = SlotAt(op.input, segment, op.cache, position, self.fault_);
        if (position >= end - op.cache.tail_slots) {
          op.cache.Keep(segment.sequence, position, slot.values, slot.scores);
        }
        if (op.cache.IsBoundary(position)) {
          op.cache.KeepBoundary(segment.sequence, position, slot.values, slot.scores);
        }
      }
    }
  }
};

bool ReferenceBackend::ComputeCompressor(const Operation& operation) {
  return ComputeBy(CompressorOperations{*this}, operation);
}

}  // namespace fathom::kernels
