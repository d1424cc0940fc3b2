// Attention of some heads of one token over a list of keys (docs/numerics.md 7). Scores are
// computed with keys in the lanes, values are added with dimensions in the lanes.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/simd.h"
#include "kernels/math.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kAttentionBlock;

constexpr int64_t kChain = cpu::kAttentionChain;

// A block of slots, and those of its keys that are not masked.
struct Block {
  int64_t count = 0;  // of keys
  int64_t slots[kBlock];
  const uint16_t* keys[kBlock];
  int64_t rows_end = 0;          // behind the last slot with a key, a multiple of kLanes
  const uint16_t* rows[kBlock];  // of the slots before; any key of the block where masked
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
  if (block.count > 0) {
    const int64_t last = block.slots[block.count - 1];
    block.rows_end = (last / kLanes + 1) * kLanes;
    for (int64_t j = 0; j < block.rows_end; ++j) {
      block.rows[j] = block.keys[0];
    }
    for (int64_t i = 0; i < block.count; ++i) {
      block.rows[block.slots[i]] = block.keys[i];
    }
  }
  return block;
}

// The pieces of a task's scratch memory.
struct Workspace {
  explicit Workspace(const cpu::AttentionTask& task)
      : q_stride(cpu::PreparedStride(task.head_dim)),
        q(task.scratch),
        o(q + cpu::kTaskHeads * q_stride),
        z(o + cpu::kTaskHeads * task.head_dim),
        columns(z + cpu::kTaskHeads * kBlock) {}

  int64_t q_stride;
  float* q;        // [heads, head_dim], q_stride apart
  float* o;        // [heads, head_dim]
  float* z;        // [heads, kBlock]
  float* columns;  // [kChain, kBlock]: a part of the keys, transposed
};

// columns[i][j] = dimension first + i of row j.
void TransposeRows(const Block& block, int64_t first, int64_t n, float* columns) {
  for (int64_t j = 0; j < block.rows_end; j += kLanes) {
    for (int64_t i = 0; i < n; i += 8) {
      F32 values[8];
      LoadBf16Columns(block.rows + j, first + i, values);
      for (int64_t c = 0; c < 8; ++c) {
        Store(columns + (i + c) * kBlock + j, values[c]);
      }
    }
  }
}

// z[h][j] += the chain of q_h and column j over n dimensions, for kVectors vectors of columns.
template <int kHeads, int kVectors>
void AddChains(const float* q, int64_t q_stride, const float* columns, int64_t n, float* z) {
  F32 chain[kHeads][kVectors];
  for (auto& head : chain) {
    for (F32& lanes : head) {
      lanes = Zero();
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    F32 keys[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      keys[v] = Load(columns + i * kBlock + v * kLanes);
      Keep(keys[v]);
    }
    for (int h = 0; h < kHeads; ++h) {
      const F32 x = Set(q[h * q_stride + i]);
      for (int v = 0; v < kVectors; ++v) {
        chain[h][v] = MulAdd(x, keys[v], chain[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      float* sums = z + h * kBlock + v * kLanes;
      Store(sums, Load(sums) + chain[h][v]);
    }
  }
}

template <int kHeads>
void AddScores(const Workspace& work, int64_t head, int64_t first, int64_t n, int64_t rows_end) {
  // As many chains at once as registers hold.
  constexpr int kVectors = kParts == 1 || kHeads < 4 ? 4 : 2;
  const float* q = work.q + head * work.q_stride + first;
  float* z = work.z + head * kBlock;
  int64_t j = 0;
  for (; j + kVectors * kLanes <= rows_end; j += kVectors * kLanes) {
    AddChains<kHeads, kVectors>(q, work.q_stride, work.columns + j, n, z + j);
  }
  for (; j < rows_end; j += kLanes) {
    AddChains<kHeads, 1>(q, work.q_stride, work.columns + j, n, z + j);
  }
}

// The scores of all heads; -inf where masked.
void ScoreBlock(const cpu::AttentionTask& task, const Block& block, const Workspace& work) {
  for (int64_t i = 0; i < task.heads * kBlock; i += kLanes) {
    Store(work.z + i, Zero());
  }
  for (int64_t first = 0; first < task.head_dim; first += kChain) {
    const int64_t n = task.head_dim - first < kChain ? task.head_dim - first : kChain;
    TransposeRows(block, first, n, work.columns);
    int64_t head = 0;
    for (; head + 4 <= task.heads; head += 4) {
      AddScores<4>(work, head, first, n, block.rows_end);
    }
    for (; head < task.heads; ++head) {
      AddScores<1>(work, head, first, n, block.rows_end);
    }
  }
  for (int64_t i = 0; i < task.heads * kBlock; i += kLanes) {
    Store(work.z + i, Set(task.scale) * Load(work.z + i));
  }
  int64_t key = 0;
  for (int64_t j = 0; j < kBlock; ++j) {
    if (key < block.count && block.slots[key] == j) {
      ++key;
      continue;
    }
    for (int64_t head = 0; head < task.heads; ++head) {
      work.z[head * kBlock + j] = -__builtin_inff();
    }
  }
}

// The running maximum and sum of one head.
struct Softmax {
  float maximum = -__builtin_inff();
  float sum = 0.0f;
};

// Quarters of eight lanes in order, then the eight in order.
float SumOf32(const float* lanes) {
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) {
    sum = sum + (((lanes[i] + lanes[8 + i]) + lanes[16 + i]) + lanes[24 + i]);
  }
  return sum;
}

// z [64], -inf where masked -> p [64]; returns the factor of what was added before.
float Advance(const float* z, Softmax& state, float* p) {
  F32 largest = Load(z);
  for (int64_t j = kLanes; j < kBlock; j += kLanes) {
    largest = Max(Load(z + j), largest);
  }
  const float block_maximum = MaxLanes(largest);
  const float maximum = state.maximum < block_maximum ? block_maximum : state.maximum;
  F32 lanes[2][kParts];  // 32 lanes
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const F32 value = Exp<VectorOps>(Load(z + j) - Set(maximum));
    Store(p + j, RoundToBf16(value));
    F32& lane = lanes[j / 16 % 2][j / kLanes % kParts];
    lane = j < 32 ? Zero() + value : lane + value;
  }
  float sums[32];
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < kParts; ++part) {
      Store(sums + 16 * half + part * kLanes, lanes[half][part]);
    }
  }
  const float factor = Exp<ScalarOps>(state.maximum - maximum);
  state.sum = state.sum * factor + SumOf32(sums);
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

// Adds the block to kHeads heads from `head`.
template <int kHeads>
void AddGroup(const Block& block, const Workspace& work, int64_t head, int64_t head_dim,
              Softmax* state) {
  float p[kHeads][kBlock];
  float factors[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    factors[h] = Advance(work.z + (head + h) * kBlock, state[head + h], p[h]);
  }
  AddValues<kHeads>(block, p, factors, head_dim, work.o + head * head_dim);
}

void AddBlock(const cpu::AttentionTask& task, const Block& block, const Workspace& work,
              Softmax* state) {
  ScoreBlock(task, block, work);
  int64_t head = 0;
  for (; head + cpu::kHeadGroup <= task.heads; head += cpu::kHeadGroup) {
    AddGroup<cpu::kHeadGroup>(block, work, head, task.head_dim, state);
  }
  switch (task.heads - head) {
    case 1:
      return AddGroup<1>(block, work, head, task.head_dim, state);
    case 2:
      return AddGroup<2>(block, work, head, task.head_dim, state);
    case 3:
      return AddGroup<3>(block, work, head, task.head_dim, state);
    default:
      return;
  }
}

void FinishHead(const cpu::AttentionTask& task, const Softmax& state, const float* o,
                int64_t head) {
  const F32 sum = Set(state.sum + Exp<ScalarOps>(task.sinks[head] - state.maximum));
  uint16_t* out = task.out + head * task.head_dim;
  for (int64_t column = 0; column < task.head_dim; column += 2 * kLanes) {
    StoreBf16Pairs(out + column, {Load(o + column) / sum, Load(o + column + kLanes) / sum});
  }
  RotatePairs(out + task.head_dim - 2 * task.rope.pairs, task.rope, -1.0f);
}

}  // namespace

void Attend(const cpu::AttentionTask& task) {
  const Workspace work(task);
  for (int64_t head = 0; head < task.heads; ++head) {
    Prepare(cpu::ProductFormat::kF32, task.q + head * task.head_dim, task.head_dim,
            work.q + head * work.q_stride, nullptr);
  }
  for (int64_t i = 0; i < task.heads * task.head_dim; i += kLanes) {
    Store(work.o + i, Zero());
  }
  Softmax state[cpu::kTaskHeads];
  for (int64_t first = 0; first < task.n_slots; first += kBlock) {
    const Block block = CollectBlock(task, first);
    if (block.count > 0) {
      AddBlock(task, block, work, state);
    }
  }
  for (int64_t head = 0; head < task.heads; ++head) {
    FinishHead(task, state[head], work.o + head * task.head_dim, head);
  }
}

}  // namespace fathom::KERNEL_ISA
