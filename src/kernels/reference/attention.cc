// Attention over the window and the compressed rows (docs/numerics.md 7; docs/spec/model.md 5.4,
// 5.5).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/math.h"
#include "kernels/reference/lanes.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/reference/vectors.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kBlock = 64;        // slots that share one maximum
constexpr std::int64_t kScoreChain = 128;  // dimensions per fma chain of a score

// The slots of a query in order: each is the key, which is also the value; empty where masked.
using Key = std::vector<Bf16>;
using KeyList = std::vector<Key>;

// Unpacks a key. Where the key is not cached, it is empty, as if masked, and a fault is set.
Key Unpack(const std::uint8_t* packed, const KeyLayout& layout, std::int64_t row,
           FaultWord& fault) {
  if (packed == nullptr) {
    fault.Set(Fault::kKeyNotCached, row);
    return {};
  }
  Key key(static_cast<std::size_t>(layout.head_dim));
  UnpackKey(packed, layout, key.data());
  return key;
}

// Finds the keys that a row of a block of drafts sees: the positions before the block in the order
// of a ring, then the block's own positions.
KeyList KeysOfBlock(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                    std::int64_t row, FaultWord& fault) {
  const Segment& segment = batch.FindSegment(row);
  KeyList keys;
  const std::int32_t end = segment.first_position;
  const auto window = static_cast<std::int32_t>(input.sliding_window);
  for (std::int32_t slot = 0; slot < FilledSlots(end, window); ++slot) {
    const std::int64_t p = PositionInRing(slot, end, window);
    keys.push_back(
        Unpack(cache.window.Row(segment.sequence, p), cache.window.rows.layout, row, fault));
  }
  for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
    const auto own = input.keys.RowSpan(segment.first_row + i);
    keys.emplace_back(own.begin(), own.end());
  }
  return keys;
}

// Finds the keys that row `row` of the batch sees.
KeyList FindKeys(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                 std::int64_t row, FaultWord& fault) {
  if (input.sees_whole_segment) return KeysOfBlock(input, batch, cache, row, fault);
  const Segment& segment = batch.FindSegment(row);
  const std::int64_t position = batch.positions[static_cast<std::size_t>(row)];
  KeyList keys;
  for (std::int64_t p = std::max<std::int64_t>(0, position - input.sliding_window + 1);
       p <= position; ++p) {
    if (p >= segment.first_position) {
      const auto own = input.keys.RowSpan(segment.first_row + p - segment.first_position);
      keys.emplace_back(own.begin(), own.end());
    } else {
      keys.push_back(
          Unpack(cache.window.Row(segment.sequence, p), cache.window.rows.layout, row, fault));
    }
  }
  keys.resize(static_cast<std::size_t>(input.sliding_window));
  const CompressorCache& compressor = cache.compressor;
  const std::int64_t visible = VisibleRows(position, cache.ratio);
  Check(visible <= compressor.Capacity(), "SparseAttention: more rows than the cache holds");
  const auto cached = [&](std::int64_t c) {
    return Unpack(compressor.rows.Row(segment.sequence, c), compressor.rows.layout, row, fault);
  };
  if (input.selected.cols == 0) {
    for (std::int64_t c = 0; c < visible; ++c) {
      keys.push_back(cached(c));
    }
    return keys;
  }
  const bool gathered = input.gathered.cols > 0;
  for (const std::int32_t c : input.selected.RowSpan(row)) {
    const bool is_visible = c < (gathered ? input.gathered.rows : visible);
    if (!is_visible) {
      fault.Set(Fault::kRowNotVisible, row);
    }
    keys.push_back(c < 0 || !is_visible ? Key()
                   : gathered ? Unpack(input.gathered.Row(c), compressor.rows.layout, row, fault)
                              : cached(c));
  }
  return keys;
}

// The running state of the softmax over the blocks of one head.
struct OnlineSoftmax {
  float maximum = kMinusInfinity;
  float sum = 0.0f;
  std::vector<float> o;  // [head_dim]
};

// 32 lanes (slot mod 32): adds the quarters of eight lanes in order, then the eight lanes in order.
float SumOfProbabilities(const float* p, std::int64_t n) {
  float lane[32] = {};
  for (std::int64_t j = 0; j < n; ++j) {
    lane[j % 32] = lane[j % 32] + p[j];
  }
  float sum = 0.0f;
  for (std::int64_t i = 0; i < 8; ++i) {
    sum = sum + (((lane[i] + lane[8 + i]) + lane[16 + i]) + lane[24 + i]);
  }
  return sum;
}

// Adds one block of at most 64 slots.
void AddBlock(const Bf16* q, std::span<const Key> keys, float scale, OnlineSoftmax& state) {
  const std::int64_t head_dim = std::ssize(state.o);
  float z[kBlock];
  float maximum = state.maximum;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    z[j] = kMinusInfinity;
    if (!keys[j].empty()) {
      z[j] = scale *
             ChainProduct(
                 head_dim, kScoreChain, [&](std::int64_t i) { return ToFloat(q[i]); },
                 [&](std::int64_t i) { return ToFloat(keys[j][static_cast<std::size_t>(i)]); });
      maximum = std::max(maximum, z[j]);
    }
  }
  const float c = Exp<ScalarOps>(state.maximum - maximum);
  float p[kBlock];
  for (std::size_t j = 0; j < keys.size(); ++j) {
    p[j] = keys[j].empty() ? 0.0f : Exp<ScalarOps>(z[j] - maximum);
  }
  const float sum = SumOfProbabilities(p, std::ssize(keys));
  state.sum = state.sum * c + sum;
  state.maximum = maximum;
  for (float& o : state.o) {
    o = o * c;
  }
  for (std::size_t j = 0; j < keys.size(); ++j) {
    for (std::size_t i = 0; i < keys[j].size(); ++i) {
      state.o[i] = std::fma(RoundToBf16(p[j]), ToFloat(keys[j][i]), state.o[i]);
    }
  }
}

// Computes out [head_dim]: the attention output of one head before the inverse rotation.
void AttendHead(const Bf16* q, const KeyList& keys, float sink, std::int64_t head_dim, Bf16* out) {
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  OnlineSoftmax state;
  state.o.resize(static_cast<std::size_t>(head_dim));
  const std::span<const Key> all = keys;
  for (std::size_t first = 0; first < all.size(); first += kBlock) {
    const auto block = all.subspan(first, std::min<std::size_t>(kBlock, all.size() - first));
    if (std::any_of(block.begin(), block.end(), [](const Key& key) { return !key.empty(); })) {
      AddBlock(q, block, scale, state);
    }
  }
  const float sum = state.sum + Exp<ScalarOps>(sink - state.maximum);
  for (std::int64_t i = 0; i < head_dim; ++i) {
    out[i] = ToBf16(state.o[static_cast<std::size_t>(i)] / sum);
  }
}

}  // namespace

struct ReferenceBackend::AttentionOperations {
  ReferenceBackend& self;

  void Compute(const SparseAttentionOp& op) {
    const std::int64_t head_dim = op.input.keys.cols;
    const std::int64_t pairs = op.input.rope.cos.cols;
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      const KeyList keys = FindKeys(op.input, op.batch, op.cache, row, self.fault_);
      for (std::int64_t head = 0; head < std::ssize(op.input.sinks); ++head) {
        Bf16* o = op.out.Row(row) + head * head_dim;
        AttendHead(op.input.q.Row(row) + head * head_dim, keys,
                   op.input.sinks[static_cast<std::size_t>(head)], head_dim, o);
        RotatePairs(o + head_dim - 2 * pairs, pairs, op.input.rope.cos.Row(row),
                    op.input.rope.sin.Row(row), -1.0f);
      }
    }
  }

  void Compute(const CopyRowsOp& op) {
    for (std::int64_t i = 0; i < op.out.rows; ++i) {
      const SequenceRow& row = op.rows[static_cast<std::size_t>(i)];
      std::copy_n(op.cache.rows.Row(row.sequence, op.cache.share.ToPlace(row.row)), op.out.cols,
                  op.out.Row(i));
    }
  }

  void Compute(const AppendWindowOp& op) {
    for (const Segment& segment : op.batch.segments) {
      for (std::int64_t i = 0; i < segment.n_tokens; ++i) {
        std::uint8_t* row = op.cache.Row(segment.sequence, segment.first_position + i);
        if (row != nullptr) {
          PackKey(op.keys.Row(segment.first_row + i), op.cache.rows.layout, row);
        }
      }
    }
  }
};

bool ReferenceBackend::ComputeAttention(const Operation& operation) {
  return ComputeBy(AttentionOperations{*this}, operation);
}

}  // namespace fathom::kernels
