// Probabilities of attention, and what their blocks multiply sums by (docs/numerics.md 7).
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/lanes.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

constexpr int kGroups = kMaxBlockThreads / kGroupThreads;  // blocks of slots at a time
constexpr int kSlotsOfThread = kAttentionBlock / kGroupThreads;

// Returns the sum of the probabilities of a block to the group's first thread, which has slots
// lane, lane + 16, lane + 32 and lane + 48: two of the 32 lanes. The quarters of eight lanes are
// added in order, then the eight lanes in order.
GPU_DEVICE float SumOfProbabilities(const float (&p)[kSlotsOfThread]) {
  const float low = p[0] + p[2];
  const float high = p[1] + p[3];
  const float quarters = ((low + ShuffleXor(low, 8)) + high) + ShuffleXor(high, 8);
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) {
    sum = sum + Shuffle(quarters, WaveLane() - GroupLane() + i);
  }
  return sum;
}

GPU_DEVICE float Larger(float a, float b) { return a < b ? b : a; }  // a if one is NaN

}  // namespace

// A group has a block of slots.
GPU_KERNEL(AttentionWeights, AttentionArguments a) {
  GPU_SHARED(float, maxima, kGroups);
  GPU_SHARED(float, sums, kGroups);
  GPU_SHARED(float, factors, kGroups);  // -1: the block has no key
  const int64_t row = BlockX() / a.heads;
  const int64_t head = BlockX() % a.heads;
  const int64_t n_blocks = a.lists.n_blocks;
  const int64_t* const keys = a.lists.keys + row * a.lists.Slots();
  float* const weights = a.lists.weights + BlockX() * a.lists.Slots();
  const int group = ThreadX() / kGroupThreads;
  for (int64_t i = ThreadX(); BlockX() == 0 && i < a.keys.cols; i += BlockThreads()) {
    a.lists.masked[i] = Bf16{0x8000};
  }
  float maximum = kMinusInfinity;  // of the blocks before
  float sum = 0.0f;                // in thread 0
  int32_t end = 0;                 // in thread 0
  for (int64_t first = 0; first < n_blocks; first += kGroups) {
    const int64_t block = first + group;
    const int64_t first_slot = block * kAttentionBlock + GroupLane();
    float z[kSlotsOfThread];
    bool has_key[kSlotsOfThread];
    int32_t n_keys = 0;
    float largest = kMinusInfinity;
    GPU_UNROLL
    for (int i = 0; i < kSlotsOfThread; ++i) {
      const int64_t slot = first_slot + i * kGroupThreads;
      has_key[i] = block < n_blocks && keys[slot] != 0;
      z[i] = has_key[i] ? weights[slot] : kMinusInfinity;
      n_keys += has_key[i] ? 1 : 0;
      largest = Larger(largest, z[i]);
    }
    for (int mask = kGroupThreads / 2; mask > 0; mask /= 2) {
      largest = Larger(largest, ShuffleXor(largest, mask));
    }
    const bool is_empty = LargestOfGroup(n_keys) == 0;
    if (GroupLane() == 0) {
      maxima[group] = largest;
    }
    SyncBlock();
    float before = maximum;
    for (int i = 0; i < kGroups; ++i) {
      const float of_block = maxima[i];
      maximum = Larger(maximum, of_block);
      before = i < group ? maximum : before;
    }
    const float after = Larger(before, largest);
    float p[kSlotsOfThread];
    GPU_UNROLL
    for (int i = 0; i < kSlotsOfThread; ++i) {
      p[i] = has_key[i] ? Exp<GpuOps>(z[i] - after) : 0.0f;
      if (block < n_blocks) {
        weights[first_slot + i * kGroupThreads] = RoundToBf16(p[i]);
      }
    }
    const float of_block = SumOfProbabilities(p);
    const float factor = Exp<GpuOps>(before - after);
    if (GroupLane() == 0) {
      sums[group] = of_block;
      factors[group] = is_empty ? -1.0f : factor;
      if (block < n_blocks) {
        a.lists.factors[BlockX() * n_blocks + block] = is_empty ? 1.0f : factor;
      }
    }
    SyncBlock();
    for (int i = 0; i < kGroups && ThreadX() == 0; ++i) {
      const float of_group = factors[i];
      if (of_group == -1.0f) continue;
      sum = sum * of_group + sums[i];
      end = static_cast<int32_t>(first) + i + 1;
    }
  }
  if (ThreadX() == 0) {
    a.lists.denominators[BlockX()] = sum + Exp<GpuOps>(a.sinks[head] - maximum);
    if (head == 0) {
      a.lists.ends[row] = end;
    }
  }
}

}  // namespace fathom::kernels::gpu
