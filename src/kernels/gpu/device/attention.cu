// Attention over the window and the compressed rows (docs/numerics.md 7).
#include "kernels/gpu/device/attention.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/device/rotate.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// The key of a slot, which is also its value: numbers of the batch, or a cached key; neither if the
// slot is masked.
struct SlotKey {
  const Bf16* own = nullptr;
  const uint8_t* cached = nullptr;
};

GPU_DEVICE SlotKey CachedKey(const AttentionArguments& a, const uint8_t* cached, int64_t row) {
  if (cached == nullptr) {
    SetFault(a.fault, Fault::kKeyNotCached, row);
  }
  return {nullptr, cached};
}

// The slots of a row: first the window, then the compressed rows.
struct RowSlots {
  GPU_DEVICE static int64_t Count(const AttentionArguments& a, int64_t row) {
    return a.sliding_window +
           (a.selected.cols > 0 ? a.selected.cols : VisibleRows(a.batch.positions[row], a.ratio));
  }

  GPU_DEVICE static SlotKey FindKey(const AttentionArguments& a, int64_t row, int64_t slot) {
    const Segment& segment = FindSegment(a.batch, row);
    const int64_t position = a.batch.positions[row];
    if (slot < a.sliding_window) {
      const int64_t before = position - a.sliding_window + 1;
      const int64_t p = (before > 0 ? before : 0) + slot;
      if (p > position) return {};
      if (p >= segment.first_position) {
        return {a.keys.Row(segment.first_row + p - segment.first_position), nullptr};
      }
      return CachedKey(a, a.window.Row(segment.sequence, p), row);
    }
    const int64_t i = slot - a.sliding_window;
    if (a.selected.cols == 0) {
      return CachedKey(a, a.compressed.Row(segment.sequence, i), row);
    }
    const int64_t c = a.selected.Row(row)[i];
    const bool gathered = a.gathered.cols > 0;
    if (c >= (gathered ? a.gathered.rows : VisibleRows(position, a.ratio))) {
      SetFault(a.fault, Fault::kRowNotVisible, row);
      return {};
    }
    if (c < 0) return {};
    return gathered ? SlotKey{nullptr, a.gathered.Row(c)}
                    : CachedKey(a, a.compressed.Row(segment.sequence, c), row);
  }
};

// The slots of a row of a block of drafts: first the ring of the window, then the block's own. A
// kernel of its own: both kinds together need more registers than some architectures have.
struct BlockSlots {
  GPU_DEVICE static int64_t Count(const AttentionArguments& a, int64_t row) {
    const Segment& segment = FindSegment(a.batch, row);
    return segment.n_tokens +
           FilledSlots(segment.first_position, static_cast<int32_t>(a.sliding_window));
  }

  GPU_DEVICE static SlotKey FindKey(const AttentionArguments& a, int64_t row, int64_t slot) {
    const Segment& segment = FindSegment(a.batch, row);
    const int32_t end = segment.first_position;
    const auto window = static_cast<int32_t>(a.sliding_window);
    const int32_t n_filled = FilledSlots(end, window);
    if (slot >= n_filled) return {a.keys.Row(segment.first_row + slot - n_filled), nullptr};
    const int32_t p = PositionInRing(static_cast<int32_t>(slot), end, window);
    return CachedKey(a, a.window.Row(segment.sequence, p), row);
  }
};

GPU_DEVICE float ReadNumber(const SlotKey& key, const KeyLayout& layout, int64_t i) {
  return ToFloat(key.own != nullptr ? key.own[i] : KeyNumber(key.cached, layout, i));
}

// Sums n <= 64 numbers in 32 lanes (slot mod 32): the quarters of eight lanes in order, then the
// eight lanes in order.
template <class P>
GPU_DEVICE float SumOfProbabilities(const P& p, int n) {
  const auto lane = [&](int i) {
    float sum = 0.0f;
    if (i < n) sum = sum + p[i];
    if (i + 32 < n) sum = sum + p[i + 32];
    return sum;
  };
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) {
    sum = sum + (((lane(i) + lane(8 + i)) + lane(16 + i)) + lane(24 + i));
  }
  return sum;
}

template <class Slots>
GPU_DEVICE void Attend(const AttentionArguments& a) {
  const int64_t head_dim = a.keys.cols;
  const int64_t n_chains = TileCount(head_dim, kScoreChain);
  const int64_t n_items = kAttentionBlock * n_chains;
  GPU_SHARED(const Bf16*, own, kAttentionBlock);
  GPU_SHARED(const uint8_t*, cached, kAttentionBlock);
  GPU_SHARED(float, z, kAttentionBlock);
  GPU_SHARED(float, p, kAttentionBlock);
  GPU_SHARED(int32_t, n_present, 1);
  GPU_SHARED(float, new_maximum, 1);
  GPU_SHARED(float, denominator, 1);
  GPU_DYNAMIC_SHARED(float, chains, 0, n_items);
  GPU_DYNAMIC_SHARED(float, o, TileCount(4 * n_items, 16) * 16, head_dim);
  const int64_t row = BlockX() / a.heads;
  const int64_t head = BlockX() % a.heads;
  const Bf16* const q = a.q.Row(row) + head * head_dim;
  const KeyLayout layout = a.window.rows.layout;
  const int64_t n_slots = Slots::Count(a, row);
  for (int64_t i = ThreadX(); i < head_dim; i += BlockThreads()) {
    o[i] = 0.0f;
  }
  float maximum = kMinusInfinity;
  float sum = 0.0f;  // only in thread 0
  for (int64_t first = 0; first < n_slots; first += kAttentionBlock) {
    const int64_t rest = n_slots - first;
    const int n = static_cast<int>(rest < kAttentionBlock ? rest : kAttentionBlock);
    SyncBlock();
    if (ThreadX() < n) {
      const SlotKey key = Slots::FindKey(a, row, first + ThreadX());
      own[ThreadX()] = key.own;
      cached[ThreadX()] = key.cached;
    }
    SyncBlock();
    const auto key_of = [&](int j) { return SlotKey{own[j], cached[j]}; };
    const auto is_present = [&](int j) {
      const SlotKey key = key_of(j);
      return key.own != nullptr || key.cached != nullptr;
    };
    if (ThreadX() == 0) {
      int32_t present = 0;
      for (int j = 0; j < n; ++j) {
        present += is_present(j) ? 1 : 0;
      }
      n_present[0] = present;
    }
    for (int64_t item = ThreadX(); item < n * n_chains; item += BlockThreads()) {
      const SlotKey key = key_of(static_cast<int>(item / n_chains));
      float chain = 0.0f;
      if (key.own != nullptr || key.cached != nullptr) {
        const int64_t begin = item % n_chains * kScoreChain;
        const int64_t end = begin + kScoreChain < head_dim ? begin + kScoreChain : head_dim;
        for (int64_t i = begin; i < end; ++i) {
          chain = Fma(ToFloat(q[i]), ReadNumber(key, layout, i), chain);
        }
      }
      chains[item] = chain;
    }
    SyncBlock();
    const int32_t present = n_present[0];
    if (present == 0) continue;
    if (ThreadX() < n) {
      float product = 0.0f;
      for (int64_t c = 0; c < n_chains; ++c) {
        product = product + chains[ThreadX() * n_chains + c];
      }
      z[ThreadX()] = a.scale * product;
    }
    SyncBlock();
    if (ThreadX() == 0) {
      float largest = maximum;
      for (int j = 0; j < n; ++j) {
        const float score = z[j];
        largest = is_present(j) && largest < score ? score : largest;
      }
      new_maximum[0] = largest;
    }
    SyncBlock();
    const float largest = new_maximum[0];
    const float c = Exp<GpuOps>(maximum - largest);
    maximum = largest;
    if (ThreadX() < n) {
      p[ThreadX()] = is_present(ThreadX()) ? Exp<GpuOps>(z[ThreadX()] - largest) : 0.0f;
    }
    SyncBlock();
    if (ThreadX() == 0) {
      sum = sum * c + SumOfProbabilities(p, n);
    }
    for (int64_t i = ThreadX(); i < head_dim; i += BlockThreads()) {
      float value = o[i] * c;
      for (int j = 0; j < n; ++j) {
        if (is_present(j)) {
          value = Fma(RoundToBf16(p[j]), ReadNumber(key_of(j), layout, i), value);
        }
      }
      o[i] = value;
    }
  }
  if (ThreadX() == 0) {
    denominator[0] = sum + Exp<GpuOps>(a.sinks[head] - maximum);
  }
  SyncBlock();
  const auto result = [&](int64_t i) { return ToBf16(Div(o[i], denominator[0])); };
  Bf16* const out = a.out.Row(row) + head * head_dim;
  const int64_t pairs = a.rope.cos.cols;
  const int64_t plain = head_dim - 2 * pairs;
  for (int64_t i = ThreadX(); i < plain; i += BlockThreads()) {
    out[i] = result(i);
  }
  for (int64_t k = ThreadX(); k < pairs; k += BlockThreads()) {
    const int64_t i = plain + 2 * k;
    const RotatedPair pair =
        Rotate(result(i), result(i + 1), a.rope.cos.Row(row)[k], -a.rope.sin.Row(row)[k]);
    out[i] = pair.x;
    out[i + 1] = pair.y;
  }
}

}  // namespace

GPU_KERNEL(SparseAttention, AttentionArguments a) { Attend<RowSlots>(a); }

GPU_KERNEL(BlockAttention, AttentionArguments a) { Attend<BlockSlots>(a); }

GPU_KERNEL(AppendWindow, AppendWindowArguments a) {
  const Segment& segment = FindSegment(a.batch, BlockX());
  uint8_t* const row = a.cache.Row(segment.sequence, a.batch.positions[BlockX()]);
  if (row == nullptr) return;
  const Bf16* const key = a.keys.Row(BlockX());
  PackKeyOfBlock([&](int64_t i) { return key[i]; }, a.cache.rows.layout, row);
}

GPU_KERNEL(CopyRows, CopyRowsArguments a) {
  const SequenceRow& row = a.rows[BlockX()];
  const uint8_t* const from = a.cached.Row(row.sequence, a.share.ToPlace(row.row));
  uint8_t* const to = a.out.Row(BlockX());
  for (int64_t i = ThreadX(); i < a.out.cols; i += BlockThreads()) {
    to[i] = from[i];
  }
}

}  // namespace fathom::kernels::gpu
