// Attention of some heads of one token over a list of keys (docs/numerics.md 7). The keys of a
// block are unpacked once for all heads. Scores are computed with keys in the lanes, values are
// added with dimensions in the lanes.
#include "kernels/cpu/vector/chains.h"
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/rotary.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/math.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kAttentionBlock;
constexpr int64_t kChain = cpu::kAttentionChain;
constexpr int64_t kTile = cpu::kAttentionTile;  // slots whose keys are transposed together
constexpr int64_t kChunk = 2 * kLanes;          // dimensions of a register of bf16
// Distance, in slots, between chunks of the unpacked keys: one more than the number of slots,
// because a power of two would put the chunks of a key in the same set of the first-level cache.
constexpr int64_t kChunkStride = cpu::kAttentionValueSlots * kChunk;
constexpr int64_t kPartStride = cpu::kAttentionPartStride;  // between the heads of a part of q

// A block of slots, and the slots among them that have a key.
struct Block {
  int64_t count = 0;  // number of keys
  int64_t slots[kBlock];
  int64_t end = 0;  // after the last slot with a key, a multiple of kLanes
};

// The pieces of a task's scratch memory.
struct Workspace {
  explicit Workspace(const cpu::AttentionTask& task)
      : q(task.scratch),
        o(q + cpu::AttentionParts(task.head_dim) * cpu::kTaskHeads * kPartStride),
        z(o + cpu::kTaskHeads * task.head_dim),
        columns(z + cpu::kTaskHeads * kBlock),
        values(reinterpret_cast<uint16_t*>(columns + kChain * kTile)) {}

  float* q;          // [parts of kChain dimensions][kTaskHeads], kPartStride apart
  float* o;          // [heads, head_dim]: chunks of even and odd dimensions
  float* z;          // [heads, kBlock]: scores, then probabilities
  float* columns;    // [kChain, kTile]: a part of the keys, transposed
  uint16_t* values;  // [head_dim / kChunk][slots][kChunk]: the keys
};

// --- Unpacking

// Converts E4M3 numbers times 2^-120, as ExpandFp8Pairs returns them, to their values times scale.
F32 ScaleCodes(F32 x, F32 scale) {
  const F32 value = x * Set(0x1p120f);
  const I32 sign = And(Bits(value), SetInt(static_cast<int32_t>(0x80000000u)));
  const I32 nan = Or(sign, SetInt(0x7FC00000));  // for the code that would be 480
  return FromBits(SelectLess(Set(448.0f), Abs(value), nan, Bits(value))) * scale;
}

// Joins numbers that are bf16 already.
I32 JoinPairs(F32 even, F32 odd) { return Or(ShiftRight<16>(Bits(even)), Bits(odd)); }

void UnpackKey(const uint8_t* packed, const KeyLayout& layout, uint16_t* values) {
  const int64_t plain = PlainDims(layout);
  const uint8_t* scales = packed + ScaleOffset(layout);
  for (int64_t first = 0; first < plain; first += kSimulationGroup) {
    const F32 scale =
        Set(BitsToFloat(static_cast<uint32_t>(scales[first / kSimulationGroup]) << 23));
    for (int64_t i = first; i < first + kSimulationGroup; i += kChunk) {
      F32 even;
      F32 odd;
      ExpandFp8Pairs(packed + i, even, odd);
      StoreInt(values, JoinPairs(ScaleCodes(even, scale), ScaleCodes(odd, scale)));
      values += kChunkStride;
    }
  }
  for (int64_t i = 0; i < layout.rope_dims; i += kChunk) {
    StoreInt(values, LoadInt(packed + plain + 2 * i));
    values += kChunkStride;
  }
}

void CopyKey(const uint8_t* key, int64_t head_dim, uint16_t* values) {
  for (int64_t i = 0; i < head_dim; i += kChunk) {
    StoreInt(values, LoadInt(key + 2 * i));
    values += kChunkStride;
  }
}

// Fills work.values with the keys of the block at slot `first`.
Block UnpackBlock(const cpu::AttentionTask& task, int64_t first, const Workspace& work) {
  constexpr int64_t kAhead = 4;  // keys prefetched ahead
  const KeyLayout layout = {task.head_dim, 2 * task.rope.pairs};
  Block block;
  for (int64_t j = 0; j < kBlock && first + j < task.n_slots; ++j) {
    const int64_t slot = first + j;
    if (slot + kAhead < task.n_slots && task.keys[slot + kAhead] != nullptr) {
      for (int64_t i = 0; i < KeyBytes(layout); i += 64) {
        __builtin_prefetch(task.keys[slot + kAhead] + i);
      }
    }
    if (task.keys[slot] == nullptr) continue;
    uint16_t* values = work.values + j * kChunk;
    if (slot >= task.first_own && slot < task.end_own) {
      CopyKey(task.keys[slot], task.head_dim, values);
    } else {
      UnpackKey(task.keys[slot], layout, values);
    }
    block.slots[block.count++] = j;
    block.end = (j / kLanes + 1) * kLanes;
  }
  return block;
}

// --- Scores

// columns[i][j] = dimension first + i of slot tile + j; slots without a key have unused content.
void TransposeTile(const uint16_t* values, int64_t first, int64_t n, int64_t slots,
                   float* columns) {
  for (int64_t i = 0; i < n; i += 8) {
    const uint16_t* chunk = values + (first + i) / kChunk * kChunkStride + (first + i) % kChunk;
    for (int64_t j = 0; j < slots; j += kLanes) {
      F32 numbers[8];
      LoadBf16Columns(chunk + j * kChunk, kChunk, numbers);
      for (int64_t c = 0; c < 8; ++c) {
        Store(columns + (i + c) * kTile + j, numbers[c]);
      }
    }
  }
}

// Computes the scores of all heads; -inf where masked.
void ScoreBlock(const cpu::AttentionTask& task, const Block& block, const Workspace& work) {
  for (int64_t i = 0; i < task.heads * kBlock; i += kLanes) {
    Store(work.z + i, Zero());
  }
  for (int64_t first = 0; first < task.head_dim; first += kChain) {
    const int64_t n = task.head_dim - first < kChain ? task.head_dim - first : kChain;
    for (int64_t tile = 0; tile < block.end; tile += kTile) {
      const int64_t slots = block.end - tile < kTile ? block.end - tile : kTile;
      TransposeTile(work.values + tile * kChunk, first, n, slots, work.columns);
      AddAllChains<kPartStride, kTile>(work.q + first / kChain * cpu::kTaskHeads * kPartStride,
                                       task.heads, work.columns, slots, n, work.z + tile, kBlock);
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

// --- Softmax

// The running maximum and sum of one head.
struct Softmax {
  float maximum = -__builtin_inff();
  float sum = 0.0f;
};

// Adds the quarters of eight lanes in order, then the eight lanes in order.
float SumOf32(const float* lanes) {
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) {
    sum = sum + (((lanes[i] + lanes[8 + i]) + lanes[16 + i]) + lanes[24 + i]);
  }
  return sum;
}

// Turns z [64], -inf where masked, into p; returns the factor for the earlier blocks.
float Advance(float* z, Softmax& state) {
  F32 largest = Load(z);
  for (int64_t j = kLanes; j < kBlock; j += kLanes) {
    largest = Max(Load(z + j), largest);
  }
  const float block_maximum = MaxLanes(largest);
  const float maximum = state.maximum < block_maximum ? block_maximum : state.maximum;
  F32 lanes[2][kParts];  // 32 lanes
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const F32 value = Exp<VectorOps>(Load(z + j) - Set(maximum));
    Store(z + j, RoundToBf16(value));
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

// --- Values

// o_h = o_h * factors[h] + sum of p[h][j] v_j, for one chunk of dimensions.
template <int kCount>
void AddValues(const Block& block, const float* p, const float* factors, const uint16_t* values,
               int64_t head_dim, float* o) {
  F32 even[kCount];
  F32 odd[kCount];
  for (int h = 0; h < kCount; ++h) {
    even[h] = Load(o + h * head_dim) * Set(factors[h]);
    odd[h] = Load(o + h * head_dim + kLanes) * Set(factors[h]);
  }
  for (int64_t i = 0; i < block.count; ++i) {
    const int64_t j = block.slots[i];
    const Pairs value = LoadBf16Pairs(values + j * kChunk);
    for (int h = 0; h < kCount; ++h) {
      const F32 weight = Set(p[h * kBlock + j]);
      even[h] = MulAdd(weight, value.even, even[h]);
      odd[h] = MulAdd(weight, value.odd, odd[h]);
    }
  }
  for (int h = 0; h < kCount; ++h) {
    Store(o + h * head_dim, even[h]);
    Store(o + h * head_dim + kLanes, odd[h]);
  }
}

void AddBlock(const cpu::AttentionTask& task, const Block& block, const Workspace& work,
              Softmax* state) {
  ScoreBlock(task, block, work);
  float factors[cpu::kTaskHeads];
  for (int64_t head = 0; head < task.heads; ++head) {
    factors[head] = Advance(work.z + head * kBlock, state[head]);
  }
  for (int64_t chunk = 0; chunk < task.head_dim / kChunk; ++chunk) {
    ForRowGroups(task.heads, [&](auto count, int64_t head) {
      AddValues<count.value>(block, work.z + head * kBlock, factors + head,
                             work.values + chunk * kChunkStride, task.head_dim,
                             work.o + head * task.head_dim + chunk * kChunk);
    });
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
    for (int64_t i = 0; i < task.head_dim; i += kLanes) {
      float* part = work.q + (i / kChain * cpu::kTaskHeads + head) * kPartStride;
      Store(part + i % kChain, LoadBf16(task.q + head * task.head_dim + i));
    }
  }
  for (int64_t i = 0; i < task.heads * task.head_dim; i += kLanes) {
    Store(work.o + i, Zero());
  }
  Softmax state[cpu::kTaskHeads];
  for (int64_t first = 0; first < task.n_slots; first += kBlock) {
    const Block block = UnpackBlock(task, first, work);
    if (block.count > 0) {
      AddBlock(task, block, work, state);
    }
  }
  for (int64_t head = 0; head < task.heads; ++head) {
    FinishHead(task, state[head], work.o + head * task.head_dim, head);
  }
}

}  // namespace fathom::kernels::KERNEL_ISA
