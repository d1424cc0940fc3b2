// Operations on single numbers, and copies.
#include "kernels/gpu/device/elementwise.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/functions.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
namespace {

// Copies every BlockThreads() * splits-th T, from the thread's own on.
template <class T>
GPU_DEVICE void CopyAs(const PieceCopy& piece, int64_t split, int64_t splits) {
  const int64_t n = piece.bytes / static_cast<int64_t>(sizeof(T));
  const T* const from = static_cast<const T*>(piece.from);
  T* const to = static_cast<T*>(piece.to);
  for (int64_t i = split * BlockThreads() + ThreadX(); i < n; i += splits * BlockThreads()) {
    to[i] = from[i];
  }
}

}  // namespace

GPU_KERNEL(Embed, EmbedArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.out.rows * a.out.cols) return;
  const int64_t row = i / a.out.cols;
  int64_t token = a.tokens == nullptr ? row : a.tokens[row];
  if (token < 0 || token >= a.table.rows) {
    SetFault(a.fault, Fault::kTokenOutsideVocabulary, row);
    token = 0;
  }
  a.out.data[i] = a.table.Row(token)[i % a.out.cols % a.table.cols];
}

GPU_KERNEL(SwiGlu, SwiGluArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.n) return;
  a.out[i] = ToBf16(Activate(a.gate[i], a.up[i], a.clamp));
}

GPU_KERNEL(CopyPieces, CopyPiecesArguments a) {
  const PieceCopy& piece = a.pieces[BlockX() / a.splits];
  const int64_t split = BlockX() % a.splits;
  const uintptr_t alignment = reinterpret_cast<uintptr_t>(piece.from) |
                              reinterpret_cast<uintptr_t>(piece.to) |
                              static_cast<uintptr_t>(piece.bytes);
  if (alignment % sizeof(uint32_t) == 0) {
    CopyAs<uint32_t>(piece, split, a.splits);
  } else {
    CopyAs<uint8_t>(piece, split, a.splits);
  }
}

GPU_KERNEL(ChangeTables, ChangeTablesArguments a) {
  const int64_t i = BlockX() * BlockThreads() + ThreadX();
  if (i >= a.n) return;
  *a.changes[i].entry = a.changes[i].block;
}

}  // namespace fathom::kernels::gpu
