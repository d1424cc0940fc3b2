// Hopper's units for kernels, which nvcc (sm_90a) and the emulator both compile, beside gpu.h.
//
// Shared memory of these kernels is one window of GpuGrid::shared_bytes, with 32-bit addresses:
//
//   HOPPER_KERNEL(Name, threads, cluster, Arguments a)   a kernel of blocks of at most `threads`
//                                  threads, `cluster` of them (neighbours in x) running together
//   HOPPER_SHARED(window)          the window, aligned to 1024 bytes. Address(offset);
//                                  Load<T>(offset), Store(offset, value); LoadFrom<T>(rank,
//                                  offset), StoreTo(rank, offset, value) in another block of the
//                                  cluster
//   ClusterRank() SyncCluster()    the block's number in the cluster; all threads of it meet
//   SyncNamed(number, count)       `count` threads of the block meet; numbers 1 to 15
//
// Barriers are 8 bytes of the window; a phase ends when all have arrived, threads and bytes:
//
//   InitBarrier(barrier, count) FenceBarrierInit()   by one thread, before a SyncBlock
//   Arrive(barrier) ArriveAndExpect(barrier, bytes)
//   WaitBarrier(barrier, parity)   for the end of the phase with this parity, 0 first; in a new
//                                  barrier parity 1 has ended
//   FenceProxy()                   after writes of threads that a copy or Wgmma uses, before a
//                                  meeting of the two
//   CopyBytes(to, from, bytes, barrier)              multiples of 16 bytes, from memory of the
//                                  device
//   CopyTile(to, map, column, row, barrier)          a tile of a TensorMap; zeros outside the
//                                  matrix
//
// Products of a warp, sums [16, 8] += A [16, 16] B [16, 8], and of a warpgroup of 128 threads,
// sums [64, N] (+)= A [64, 16] B [16, N], in the registers of PTX's m16n8k16 and m64nNk16. A and B
// are in shared memory with K side by side (8 numbers are 16 bytes):
//
//   MultiplyByWarp<type>(sums, a, b) LoadMatrices<transposed>(pairs, address)
//   SwizzledTile(address) PlainTile(address, leading, stride)   descriptors: rows of 128 bytes with
//                                  128-byte swizzle, 8 rows in 1024 bytes; or pieces of 8 rows by
//                                  16 bytes, `leading` bytes apart in K and `stride` in rows
//   WgmmaSums<N> WgmmaOperand      registers; not to be used between Wgmma and WgmmaWait
//   WgmmaFence()                   between a use of these registers and Wgmma
//   Wgmma<type>(sums, a, b, adds)  N = 8, 64, 128, 256; a: descriptor or WgmmaOperand. adds: to the
//                                  sums, which otherwise begin at +0
//   WgmmaCommit() WgmmaWait<n>(sums)    until at most n groups are unfinished
//
//   ReleaseRegisters<n>() TakeRegisters<n>()         registers of each thread of the warpgroup
//   StartDependentKernels()        lets the next kernel begin, if it was launched to start early,
//                                  once all blocks have called it
//   WaitForEarlierKernels()        in every block of a kernel that was launched to start early, and
//                                  in no other kernel: before it, nothing is written to memory of
//                                  the device, and nothing read that earlier kernels write
//   SetFlag(flag, value) AddToFlag(flag, value) WaitForFlag(flag, least)   a word that other blocks
//                                  and devices see: earlier writes are visible after the wait
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"
#include "tests/hopper/number16.h"
#include "tests/hopper/tensor_map.h"

#if defined(__CUDACC__)
#include "tests/hopper/ptx.h"
#elif !defined(HOPPER_KERNEL)
#error "expected nvcc, or a language included before this header (tests/emulator)"
#endif

namespace fathom::kernels {

GPU_DEVICE uint64_t PlainTile(uint32_t address, int leading, int stride) {
  return static_cast<uint64_t>(address & 0x3FFFF) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}
// 16 columns are 32 bytes.
GPU_DEVICE uint64_t SwizzledTile(uint32_t address) {
  return PlainTile(address, 16, 1024) | uint64_t{1} << 62;
}

}  // namespace fathom::kernels
