#include "kernels/gpu/attention_lists.h"

#include "base/integer_math.h"

namespace fathom::kernels::gpu {
namespace {

constexpr std::int64_t kAlignment = 16;

// Returns the bytes that rows share: the key of masked slots.
std::int64_t SharedBytes(const AttentionListShape& shape) {
  return RoundUp(shape.head_dim * static_cast<std::int64_t>(sizeof(Bf16)), kAlignment);
}

}  // namespace

std::int64_t AttentionBlocks(std::int64_t n_slots) {
  return DivideUp(n_slots, std::int64_t{kAttentionBlock});
}

std::int64_t AttentionRowBytes(const AttentionListShape& shape) {
  constexpr auto kKey = static_cast<std::int64_t>(sizeof(std::int64_t));
  constexpr auto kNumber = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t slots = shape.n_blocks * kAttentionBlock;
  return slots * kKey + shape.heads * (slots + shape.n_blocks + 1) * kNumber +
         static_cast<std::int64_t>(sizeof(std::int32_t));
}

std::int64_t AttentionListBytes(const AttentionListShape& shape, std::int64_t rows) {
  return SharedBytes(shape) + rows * AttentionRowBytes(shape);
}

std::int64_t AttentionRowsIn(std::int64_t bytes, const AttentionListShape& shape) {
  return (bytes - SharedBytes(shape)) / AttentionRowBytes(shape);
}

AttentionLists LayOutAttentionLists(std::byte* memory, const AttentionListShape& shape,
                                    std::int64_t rows) {
  const auto take = [&memory]<class T>(std::int64_t n, T*& list) {
    list = reinterpret_cast<T*>(memory);
    memory += n * static_cast<std::int64_t>(sizeof(T));
  };
  AttentionLists lists;
  lists.n_blocks = shape.n_blocks;
  lists.masked = reinterpret_cast<Bf16*>(memory);
  memory += SharedBytes(shape);
  take(rows * lists.Slots(), lists.keys);
  take(rows * shape.heads * lists.Slots(), lists.weights);
  take(rows * shape.heads * lists.n_blocks, lists.factors);
  take(rows * shape.heads, lists.denominators);
  take(rows, lists.ends);
  return lists;
}

}  // namespace fathom::kernels::gpu
