// The language of the device sources on the host: maps kernels/gpu/gpu.h to the emulator.
#pragma once

#include <stdint.h>

#include <bit>
#include <cmath>
#include <type_traits>

#include "base/float_types.h"
#include "tests/emulator/block.h"
#include "tests/emulator/shared_array.h"

#define GPU_DEVICE inline
#define GPU_ANYWHERE inline
#define GPU_UNROLL
// The emulator finds the kernel as fathom_emulated_Name().
#define GPU_KERNEL(Name, argument)                                          \
  static void Name(argument);                                               \
  extern "C" ::fathom::kernels::emulator::Kernel fathom_emulated_##Name() { \
    return ::fathom::kernels::emulator::KernelMaker<&Name>::Make();         \
  }                                                                         \
  static void Name(argument)
#define GPU_SHARED(T, name, count)                                                                \
  static constexpr char name##_site = 0;                                                          \
  const ::fathom::kernels::emulator::SharedArray<T> name(::fathom::kernels::emulator::FindShared( \
      &name##_site, #name, count, static_cast<int64_t>(sizeof(T))))
#define GPU_DYNAMIC_SHARED(T, name, offset, count)                                       \
  static constexpr char name##_site = 0;                                                 \
  const ::fathom::kernels::emulator::SharedArray<T> name(                                \
      ::fathom::kernels::emulator::FindDynamicShared(&name##_site, #name, offset, count, \
                                                     static_cast<int64_t>(sizeof(T))))

namespace fathom::kernels {

namespace emulator {

template <auto kKernel>
struct KernelMaker;
template <class Arguments, void (*kKernel)(Arguments)>
struct KernelMaker<kKernel> {
  static Kernel Make(int most_threads = kMaxBlockThreads, int cluster = 1) {
    return {[](const void* arguments) { kKernel(*static_cast<const Arguments*>(arguments)); },
            sizeof(Arguments), most_threads, cluster};
  }
};

}  // namespace emulator

inline int ThreadX() { return emulator::Block::Running().thread(); }
inline int BlockThreads() { return emulator::Block::Running().grid().threads; }
inline int64_t BlockX() { return emulator::Block::Running().block_x(); }
inline int BlockY() { return emulator::Block::Running().block_y(); }
inline int64_t GridX() { return emulator::Block::Running().grid().x; }
inline int WaveSize() { return emulator::Block::Running().wave_size(); }
inline int WaveLane() { return ThreadX() % WaveSize(); }

inline void SyncBlock(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::Block::Running().SyncBlock({"SyncBlock", file, line});
}

template <class T>
T Shuffle(T value, int lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4);
  const auto found = emulator::Block::Running().Exchange(std::bit_cast<uint32_t>(value), lane,
                                                         {"Shuffle", file, line});
  return std::bit_cast<T>(static_cast<uint32_t>(found));
}
template <class T>
T ShuffleXor(T value, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return Shuffle(value, WaveLane() ^ mask, file, line);
}

inline float Fma(float a, float b, float c) { return std::fma(a, b, c); }
inline double Fma(double a, double b, double c) { return std::fma(a, b, c); }
inline float Div(float a, float b) { return a / b; }
inline float Sqrt(float a) { return std::sqrt(a); }
inline double Floor(double a) { return std::floor(a); }

// Waves of 32 convert E4M3, waves of 64 do not: tests run both ways.
inline bool ConvertsE4m3() { return WaveSize() == 32; }
inline void ConvertE4m3(uint32_t codes, float (&four)[4]) {
  for (int i = 0; i < 4; ++i) {
    four[i] = E4m3ToFloat(static_cast<uint8_t>(codes >> (8 * i)));
  }
}

// Atomic, because threads take turns.
inline uint64_t CompareExchange(uint64_t* word, uint64_t expected, uint64_t desired) {
  const uint64_t found = *word;
  if (found == expected) {
    *word = desired;
  }
  return found;
}

}  // namespace fathom::kernels
