// Stores and copies cached keys.
#include "kernels/gpu/device/attention.h"

#include "kernels/gpu/device/batch.h"
#include "kernels/gpu/device/quantize.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {
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
