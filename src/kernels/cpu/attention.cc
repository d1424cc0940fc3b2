// Attention of a few heads of one token over a list of keys (docs/numerics.md 7). A key is loaded
// once for all heads of the group.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/simd.h"
#include "kernels/math.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kAttentionBlock;

// The keys of a block that are not masked: their slots and addresses.
struct Block {
  int64_t count = 0;
  int64_t slots[kBlock];
  const uint16_t* keys[kBlock];
};

Block CollectBlock(const cpu::AttentionTask& task, int64_t first) {
  Block block;
  for (int64_t j = 0; j < kBlock && first + j < task.n_slots; ++j) {
    if (task.keys[first + j] != nullptr) {
      block.slots[block.count] = j;
      block.keys[block.count] = task.keys[first + j];
      ++block.count;
    }
  }
  return block;
}

// products[h] = q_h . key; q: prepared rows (even and odd columns apart), stride floats each.
template <int kHeads>
void ScoreKey(const float* q, int64_t stride, int64_t head_dim, const uint16_t* key,
              float* products) {
  F32 even[kHeads][kParts];
  F32 odd[kHeads][kParts];
  for (int part = 0; part < kParts; ++part) {
    F32 even_sums[kHeads];
    F32 odd_sums[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      even_sums[h] = Zero();
      odd_sums[h] = Zero();
    }
    for (int64_t k = 0; k < head_dim; k += 32) {
      const Pairs pairs = LoadBf16Pairs(key + k + 2 * kLanes * part);
      for (int h = 0; h < kHeads; ++h) {
        const float* x = q + h * stride + k + kLanes * part;
        even_sums[h] = MulAdd(Load(x), pairs.even, even_sums[h]);
        odd_sums[h] = MulAdd(Load(x + 16), pairs.odd, odd_sums[h]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      even[h][part] = even_sums[h];
      odd[h][part] = odd_sums[h];
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    products[h] = TreeSum(even[h]) + TreeSum(odd[h]);
  }
}

// The running maximum and sum of one head.
struct Softmax {
  float maximum = -__builtin_inff();
  float sum = 0.0f;
};

// z [64], -inf where masked -> p [64]; returns the factor of what was added before.
float Advance(const float* z, Softmax& state, float* p) {
  F32 largest = Load(z);
  for (int64_t j = kLanes; j < kBlock; j += kLanes) {
    largest = Max(Load(z + j), largest);
  }
  const float block_maximum = MaxLanes(largest);
  const float maximum = state.maximum < block_maximum ? block_maximum : state.maximum;
  F32 lanes[kParts];
  for (F32& lane : lanes) {
    lane = Zero();
  }
  ForLanes(kBlock, [&](int64_t j, int, int part) {
    const F32 value = Exp<VectorOps>(Load(z + j) - Set(maximum));
    Store(p + j, RoundToBf16(value));
    lanes[part] = lanes[part] + value;
  });
  const float factor = Exp<ScalarOps>(state.maximum - maximum);
  state.sum = state.sum * factor + TreeSum(lanes);
  state.maximum = maximum;
  return factor;
}

// o_h = o_h * factors[h] + sum of p[h][j] v_j, in the columns order of prepared rows.
template <int kHeads>
void AddValues(const Block& block, const float (*p)[kBlock], const float* factors, int64_t head_dim,
               float* o) {
  float weights[kBlock][kHeads];
  for (int64_t j = 0; j < block.count; ++j) {
    for (int h = 0; h < kHeads; ++h) {
      weights[j][h] = p[h][block.slots[j]];
    }
  }
  for (int64_t column = 0; column < head_dim; column += 2 * kLanes) {
    F32 even[kHeads];
    F32 odd[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      float* sums = o + h * head_dim + column;
      even[h] = Load(sums) * Set(factors[h]);
      odd[h] = Load(sums + kLanes) * Set(factors[h]);
    }
    for (int64_t j = 0; j < block.count; ++j) {
      const Pairs value = LoadBf16Pairs(block.keys[j] + column);
      for (int h = 0; h < kHeads; ++h) {
        const F32 weight = Set(weights[j][h]);
        even[h] = MulAdd(weight, value.even, even[h]);
        odd[h] = MulAdd(weight, value.odd, odd[h]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      float* sums = o + h * head_dim + column;
      Store(sums, even[h]);
      Store(sums + kLanes, odd[h]);
    }
  }
}

template <int kHeads>
void AttendHeads(const cpu::AttentionTask& task) {
  const int64_t head_dim = task.head_dim;
  const int64_t stride = cpu::PreparedStride(head_dim);
  float* q = task.scratch;
  float* o = task.scratch + cpu::kHeadGroup * stride;
  for (int h = 0; h < kHeads; ++h) {
    Prepare(cpu::ProductFormat::kBf16, task.q + h * head_dim, head_dim, q + h * stride, nullptr);
  }
  for (int64_t i = 0; i < kHeads * head_dim; ++i) {
    o[i] = 0.0f;
  }
  Softmax state[kHeads];
  for (int64_t first = 0; first < task.n_slots; first += kBlock) {
    const Block block = CollectBlock(task, first);
    if (block.count == 0) {
      continue;
    }
    float z[kHeads][kBlock];
    for (auto& row : z) {
      for (float& value : row) {
        value = -__builtin_inff();
      }
    }
    for (int64_t j = 0; j < block.count; ++j) {
      float products[kHeads];
      ScoreKey<kHeads>(q, stride, head_dim, block.keys[j], products);
      for (int h = 0; h < kHeads; ++h) {
        z[h][block.slots[j]] = task.scale * products[h];
      }
    }
    float p[kHeads][kBlock];
    float factors[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      factors[h] = Advance(z[h], state[h], p[h]);
    }
    AddValues<kHeads>(block, p, factors, head_dim, o);
  }
  for (int h = 0; h < kHeads; ++h) {
    const F32 sum = Set(state[h].sum + Exp<ScalarOps>(task.sinks[h] - state[h].maximum));
    uint16_t* out = task.out + h * head_dim;
    for (int64_t column = 0; column < head_dim; column += 2 * kLanes) {
      const float* sums = o + h * head_dim + column;
      StoreBf16Pairs(out + column, {Load(sums) / sum, Load(sums + kLanes) / sum});
    }
    RotatePairs(out + head_dim - 2 * task.rope.pairs, task.rope, -1.0f);
  }
}

}  // namespace

void Attend(const cpu::AttentionTask& task) {
  switch (task.heads) {
    case 1:
      return AttendHeads<1>(task);
    case 2:
      return AttendHeads<2>(task);
    case 3:
      return AttendHeads<3>(task);
    default:
      return AttendHeads<cpu::kHeadGroup>(task);
  }
}

}  // namespace fathom::KERNEL_ISA
