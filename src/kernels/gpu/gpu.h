// The language of the device sources, which nvcc, clang (AMD) and the emulator all compile.
//
// This header is the one place that names a vendor. A device source includes it, defines kernels
// and uses:
//
//   GPU_KERNEL(Name, Arguments a) {...}   a kernel of kernel_list.h; Arguments is a plain struct
//   GPU_RESIDENT_KERNEL(Name, n, Arguments a) {...}   one with so few registers that a device with
//                                         65,536 of them in a multiprocessor runs n blocks there
//   GPU_DEVICE                            before a function that kernels call; GPU_ANYWHERE before
//                                         one that constexpr functions call too
//   GPU_SHARED(T, name, count)            an array of the block; its content begins undefined
//   GPU_DYNAMIC_SHARED(T, name, offset, count)  the same in GpuGrid::shared_bytes, at an offset of
//                                         16 * n bytes; arrays of one kernel do not overlap
//   GPU_UNROLL GPU_UNROLL_BY(n)           before a loop over registers
//   GPU_NO_UNROLL                         before a loop whose copies would take registers
//   ThreadX() BlockThreads() BlockX() BlockY() GridX()   where a thread is; a block has at most
//                                         kMaxBlockThreads threads
//   SyncBlock()                           all threads of the block meet
//   WaveSize() WaveLane()                 32 or 64 threads in step, and the thread's number in them
//   Shuffle(value, lane) ShuffleXor(value, mask)  a float or int32_t of another lane of the wave;
//                                         all threads of the wave meet
//   Fma Div Sqrt Floor                    IEEE operations, rounded once, to nearest
//   CompareExchange(word, expected, desired)  on a word of device memory; returns what was there
//   ConvertsE4m3()                        whether the device converts E4M3
//   ConvertE4m3(codes, four)              then: the numbers of a word's codes, the lowest first
//   DotBytes(a, b, sum)                   sum + the products of four signed bytes of a and b
//   WidenE2m1(codes, low, high)           the eight E2M1 codes of a word, the lowest first, as
//                                         bytes of two words: 64 + 2 * number
//
// Elements of shared arrays are numbers, pointers or small structs of numbers, read and written as
// a whole by their index. Functions that are constexpr (base/float_types.h, kernels/math.h) can be
// called from kernels. The sources are compiled without contraction of products and sums, with
// subnormal numbers, and use no library of a vendor.
#pragma once

#include <stdint.h>

#include "base/namespaces.h"
#include "kernels/gpu/limits.h"

#if defined(__CUDACC__)

#define GPU_DEVICE __device__ inline
#define GPU_ANYWHERE __host__ __device__ inline
#define GPU_UNROLL _Pragma("unroll")
#define GPU_NO_UNROLL _Pragma("unroll 1")
#define GPU_UNROLL_BY(n) GPU_PRAGMA(unroll n)
#define GPU_PRAGMA(text) _Pragma(#text)
#define GPU_KERNEL(Name, argument) GPU_RESIDENT_KERNEL(Name, 1, argument)
#define GPU_RESIDENT_KERNEL(Name, n, argument) \
  extern "C" __global__ __launch_bounds__(256, n) void Name(const __grid_constant__ argument)
#define GPU_SHARED(T, name, count) __shared__ T name[count]
#define GPU_DYNAMIC_SHARED(T, name, offset, count) \
  extern __shared__ uint4 gpu_dynamic_shared[];    \
  T* const name = reinterpret_cast<T*>(reinterpret_cast<char*>(gpu_dynamic_shared) + (offset))

namespace fathom::kernels {

GPU_DEVICE int ThreadX() { return static_cast<int>(threadIdx.x); }
GPU_DEVICE int BlockThreads() { return static_cast<int>(blockDim.x); }
GPU_DEVICE int64_t BlockX() { return blockIdx.x; }
GPU_DEVICE int BlockY() { return static_cast<int>(blockIdx.y); }
GPU_DEVICE int64_t GridX() { return gridDim.x; }
GPU_DEVICE void SyncBlock() { __syncthreads(); }
__host__ __device__ constexpr int WaveSize() { return 32; }
GPU_DEVICE int WaveLane() { return static_cast<int>(threadIdx.x % 32); }
template <class T>
GPU_DEVICE T Shuffle(T value, int lane) {
  return __shfl_sync(0xFFFFFFFFu, value, lane);
}
template <class T>
GPU_DEVICE T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}
#if defined(__CUDA_ARCH__)
GPU_ANYWHERE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GPU_ANYWHERE double Fma(double a, double b, double c) { return __fma_rn(a, b, c); }
#else  // the compiler's pass for the host, whose code is not used
GPU_ANYWHERE float Fma(float a, float b, float c) { return a * b + c; }
GPU_ANYWHERE double Fma(double a, double b, double c) { return a * b + c; }
#endif
GPU_ANYWHERE double Floor(double a) { return floor(a); }
GPU_DEVICE float Div(float a, float b) { return __fdiv_rn(a, b); }
GPU_DEVICE float Sqrt(float a) { return __fsqrt_rn(a); }
GPU_DEVICE uint64_t CompareExchange(uint64_t* word, uint64_t expected, uint64_t desired) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(word), expected, desired);
}
GPU_DEVICE int32_t DotBytes(uint32_t a, uint32_t b, int32_t sum) {
  return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}
// Selects a byte of the magnitudes by each of the four lowest codes; zero by a negative code: the
// bits of a selector's sign select the sign of the byte.
GPU_DEVICE uint32_t PositiveE2m1(uint32_t codes) {
  uint32_t magnitudes = 0;
  asm("prmt.b32 %0, 0x03020100, 0x0C080604, %1;" : "=r"(magnitudes) : "r"(codes));
  return magnitudes;
}
GPU_DEVICE void WidenE2m1(uint32_t codes, uint32_t& low, uint32_t& high) {
  const uint32_t negated = codes ^ 0x88888888u;
  low = PositiveE2m1(codes) + 0x40404040u - PositiveE2m1(negated);
  high = PositiveE2m1(codes >> 16) + 0x40404040u - PositiveE2m1(negated >> 16);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
GPU_DEVICE constexpr bool ConvertsE4m3() { return true; }
GPU_DEVICE void ConvertE4m3(uint32_t codes, float (&four)[4]) {
  asm("{\n"
      ".reg .b16 low, high, n0, n1, n2, n3;\n"
      ".reg .b32 n10, n32;\n"
      "mov.b32 {low, high}, %4;\n"
      "cvt.rn.f16x2.e4m3x2 n10, low;\n"
      "cvt.rn.f16x2.e4m3x2 n32, high;\n"
      "mov.b32 {n0, n1}, n10;\n"
      "mov.b32 {n2, n3}, n32;\n"
      "cvt.f32.f16 %0, n0;\n"
      "cvt.f32.f16 %1, n1;\n"
      "cvt.f32.f16 %2, n2;\n"
      "cvt.f32.f16 %3, n3;\n"
      "}"
      : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3])
      : "r"(codes));
}
#else
GPU_DEVICE constexpr bool ConvertsE4m3() { return false; }
GPU_DEVICE void ConvertE4m3(uint32_t, float (&)[4]) {}
#endif

}  // namespace fathom::kernels

#elif defined(__HIP__)

#define GPU_DEVICE __attribute__((device)) inline
#define GPU_ANYWHERE __attribute__((host, device)) inline
#define GPU_UNROLL _Pragma("unroll")
#define GPU_UNROLL_BY(n) GPU_PRAGMA(unroll n)
#define GPU_PRAGMA(text) _Pragma(#text)
#define GPU_NO_UNROLL _Pragma("unroll 1")
#define GPU_KERNEL(Name, argument)                                                             \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, 256))) void \
  Name(argument)
#define GPU_RESIDENT_KERNEL(Name, n, argument) GPU_KERNEL(Name, argument)
#define GPU_SHARED(T, name, count) __attribute__((shared)) T name[count]
#define GPU_DYNAMIC_SHARED(T, name, offset, count)                                       \
  extern __attribute__((shared)) __attribute__((aligned(16))) char gpu_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(gpu_dynamic_shared + (offset))

namespace fathom::kernels {

GPU_DEVICE int ThreadX() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
GPU_DEVICE int BlockThreads() { return static_cast<int>(__builtin_amdgcn_workgroup_size_x()); }
GPU_DEVICE int64_t BlockX() { return __builtin_amdgcn_workgroup_id_x(); }
GPU_DEVICE int BlockY() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
GPU_DEVICE int64_t GridX() {
  return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}
GPU_DEVICE void SyncBlock() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__attribute__((host, device)) constexpr int WaveSize() { return __AMDGCN_WAVEFRONT_SIZE__; }
GPU_DEVICE int WaveLane() {
  return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));
}
template <class T>
GPU_DEVICE T Shuffle(T value, int lane) {
  return __builtin_bit_cast(
      T, __builtin_amdgcn_ds_bpermute(4 * lane, __builtin_bit_cast(int32_t, value)));
}
template <class T>
GPU_DEVICE T ShuffleXor(T value, int mask) {
  return Shuffle(value, WaveLane() ^ mask);
}
GPU_ANYWHERE float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GPU_ANYWHERE double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
GPU_ANYWHERE double Floor(double a) { return __builtin_floor(a); }
GPU_DEVICE float Div(float a, float b) { return a / b; }
GPU_DEVICE float Sqrt(float a) { return __builtin_sqrtf(a); }
GPU_DEVICE uint64_t CompareExchange(uint64_t* word, uint64_t expected, uint64_t desired) {
  __hip_atomic_compare_exchange_strong(word, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
GPU_DEVICE int32_t DotBytes(uint32_t a, uint32_t b, int32_t sum) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, static_cast<int32_t>(a), true, static_cast<int32_t>(b), sum,
                                 false);
#else
  return __builtin_amdgcn_sdot4(static_cast<int32_t>(a), static_cast<int32_t>(b), sum, false);
#endif
}
// Widens codes that are bytes.
GPU_DEVICE uint32_t WidenE2m1Bytes(uint32_t codes) {
  const uint32_t magnitudes = __builtin_amdgcn_perm(0x0C080604u, 0x03020100u, codes & 0x07070707u);
  const uint32_t signs = codes >> 3 & 0x01010101u;
  const uint32_t negative = (signs << 8) - signs;  // bytes of ones
  return magnitudes + 0x40404040u - 2 * (magnitudes & negative);
}
GPU_DEVICE void WidenE2m1(uint32_t codes, uint32_t& low, uint32_t& high) {
  const uint32_t even = WidenE2m1Bytes(codes & 0x0F0F0F0Fu);
  const uint32_t odd = WidenE2m1Bytes(codes >> 4 & 0x0F0F0F0Fu);
  low = __builtin_amdgcn_perm(odd, even, 0x05010400u);
  high = __builtin_amdgcn_perm(odd, even, 0x07030602u);
}
GPU_DEVICE constexpr bool ConvertsE4m3() { return false; }
GPU_DEVICE void ConvertE4m3(uint32_t, float (&)[4]) {}

}  // namespace fathom::kernels

#elif !defined(GPU_KERNEL)
#error "expected nvcc, clang for AMD, or a language included before this header (tests/emulator)"
#endif
