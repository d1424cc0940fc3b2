// Hopper's units on the host: maps tests/hopper/hopper.h to the emulator.
#pragma once

#include <cstring>

#include "tests/emulator/hopper.h"
#include "tests/emulator/language.h"
#include "tests/emulator/warp_matrix.h"
#include "tests/hopper/number16.h"
#include "tests/hopper/tensor_map.h"

#define HOPPER_KERNEL(Name, threads, cluster, argument)                             \
  static void Name(argument);                                                       \
  extern "C" ::fathom::kernels::emulator::Kernel fathom_emulated_##Name() {         \
    return ::fathom::kernels::emulator::KernelMaker<&Name>::Make(threads, cluster); \
  }                                                                                 \
  static void Name(argument)
#define HOPPER_SHARED(name) const ::fathom::kernels::SharedWindow name

namespace fathom::kernels {

namespace emulator {

inline Hopper& RunningHopper() { return Block::Running().hopper(); }

}  // namespace emulator

class SharedWindow {
 public:
  uint32_t Address(int64_t offset) const {
    return emulator::Hopper::SharedAddress(emulator::Block::Running().rank(), offset);
  }
  template <class T>
  T Load(int64_t offset) const {
    return LoadFrom<T>(emulator::Block::Running().rank(), offset);
  }
  template <class T>
  void Store(int64_t offset, T value) const {
    StoreTo(emulator::Block::Running().rank(), offset, value);
  }
  template <class T>
  T LoadFrom(int rank, int64_t offset) const {
    T value;
    emulator::RunningHopper().Read(emulator::Block::Running(),
                                   emulator::Hopper::SharedAddress(rank, offset),
                                   std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  void StoreTo(int rank, int64_t offset, T value) const {
    emulator::RunningHopper().Write(emulator::Block::Running(),
                                    emulator::Hopper::SharedAddress(rank, offset),
                                    std::as_bytes(std::span(&value, 1)));
  }
};

inline int ClusterRank() { return emulator::Block::Running().rank(); }
inline void SyncCluster(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::RunningHopper().SyncCluster(emulator::Block::Running(), {"SyncCluster", file, line});
}
inline void SyncNamed(int number, int count, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  emulator::RunningHopper().SyncNamed(emulator::Block::Running(), number, count,
                                      {"SyncNamed", file, line});
}

inline void FenceProxy() { emulator::RunningHopper().FenceProxy(emulator::Block::Running()); }
inline void InitBarrier(uint32_t barrier, int count) {
  emulator::RunningHopper().InitBarrier(emulator::Block::Running(), barrier, count);
}
inline void FenceBarrierInit() {
  emulator::RunningHopper().FenceBarrierInit(emulator::Block::Running());
}
inline void Arrive(uint32_t barrier) {
  emulator::RunningHopper().Arrive(emulator::Block::Running(), barrier, 0);
}
inline void ArriveAndExpect(uint32_t barrier, int bytes) {
  emulator::RunningHopper().Arrive(emulator::Block::Running(), barrier, bytes);
}
inline void WaitBarrier(uint32_t barrier, int parity, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  emulator::RunningHopper().WaitBarrier(emulator::Block::Running(), barrier, parity,
                                        {"WaitBarrier", file, line});
}
inline void CopyBytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  emulator::RunningHopper().CopyBytes(emulator::Block::Running(), to, from, bytes, barrier);
}
inline void CopyTile(uint32_t to, const TensorMap& map, int column, int row, uint32_t barrier) {
  emulator::RunningHopper().CopyTile(emulator::Block::Running(), to, map, column, row, barrier);
}

template <Number16 kType>
inline constexpr emulator::MatrixFormat kMatrixFormat =
    kType == Number16::kF16 ? emulator::MatrixFormat::kF16 : emulator::MatrixFormat::kBf16;

template <Number16 kType>
void MultiplyByWarp(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::MultiplyByWarp(kMatrixFormat<kType>, sums, a, b, {"MultiplyByWarp", file, line});
}
template <bool kTransposed, int kMatrices>
void LoadMatrices(uint32_t (&pairs)[kMatrices], uint32_t address,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(kMatrices == 2 || kMatrices == 4);
  emulator::LoadMatrices(pairs, address, kTransposed, {"LoadMatrices", file, line});
}

// Registers whose every use is checked.
template <class T, int kCount>
struct WgmmaRegisters {
  WgmmaRegisters() { Touch(); }
  WgmmaRegisters(const WgmmaRegisters&) = delete;
  T& operator[](int i) {
    Touch();
    return numbers[i];
  }
  void Touch() { emulator::RunningHopper().Touch(emulator::Block::Running(), uses); }

  emulator::AsyncRegisters uses;
  T numbers[kCount] = {};
};
template <int kColumns>
struct WgmmaSums : WgmmaRegisters<float, kColumns / 2> {};
struct WgmmaOperand : WgmmaRegisters<uint32_t, 4> {};

inline void WgmmaFence() { emulator::RunningHopper().WgmmaFence(emulator::Block::Running()); }
template <Number16 kType, int kN>
void Wgmma(WgmmaSums<kN>& sums, uint64_t a, uint64_t b, bool adds,
           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::WarpgroupProduct product = {.n = kN,
                                        .format = kMatrixFormat<kType>,
                                        .adds = adds,
                                        .accumulator = &sums.uses,
                                        .sums = sums.numbers,
                                        .a_tile = a,
                                        .b_tile = b};
  emulator::RunningHopper().Multiply(emulator::Block::Running(), product, {"Wgmma", file, line});
}
template <Number16 kType, int kN>
void Wgmma(WgmmaSums<kN>& sums, WgmmaOperand& a, uint64_t b, bool adds,
           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::WarpgroupProduct product = {.n = kN,
                                        .format = kMatrixFormat<kType>,
                                        .adds = adds,
                                        .accumulator = &sums.uses,
                                        .sums = sums.numbers,
                                        .a = &a.uses,
                                        .a_registers = a.numbers,
                                        .b_tile = b};
  emulator::RunningHopper().Multiply(emulator::Block::Running(), product, {"Wgmma", file, line});
}
inline void WgmmaCommit(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::RunningHopper().CommitProducts(emulator::Block::Running(), {"WgmmaCommit", file, line});
}
template <int kPending, int kN>
void WgmmaWait(WgmmaSums<kN>&, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::RunningHopper().WaitProducts(emulator::Block::Running(), kPending,
                                         {"WgmmaWait", file, line});
}

template <int kCount>
void ReleaseRegisters(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::RunningHopper().SetRegisters(emulator::Block::Running(), kCount, /*more=*/false,
                                         {"ReleaseRegisters", file, line});
}
template <int kCount>
void TakeRegisters(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::RunningHopper().SetRegisters(emulator::Block::Running(), kCount, /*more=*/true,
                                         {"TakeRegisters", file, line});
}

inline void StartDependentKernels(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
  emulator::Block::Running().StartDependents({"StartDependentKernels", file, line});
}
inline void WaitForEarlierKernels(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
  emulator::Block::Running().WaitForEarlier({"WaitForEarlierKernels", file, line});
}

inline void SetFlag(uint32_t* flag, uint32_t value) { *flag = value; }
inline void AddToFlag(uint32_t* flag, uint32_t value) { *flag += value; }
inline void WaitForFlag(const uint32_t* flag, uint32_t value, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  emulator::Block::Running().WaitUntil([=] { return *flag >= value; }, {"WaitForFlag", file, line});
}

}  // namespace fathom::kernels
