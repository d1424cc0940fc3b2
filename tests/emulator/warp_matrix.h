// Matrices in the registers of a warp: the host's implementation of mma.sync and ldmatrix.
#pragma once

#include <cstdint>
#include <span>

#include "tests/emulator/block.h"
#include "tests/emulator/matrix_unit.h"

namespace fathom::kernels::emulator {

// sums += A B for the warp: A [16, 16] in 4 pairs of numbers of each thread, B [16, 8] in 2 pairs,
// the sums [16, 8] in 4 numbers, as mma.sync m16n8k16 has them. All threads of the warp meet.
void MultiplyByWarp(MatrixFormat format, std::span<float, 4> sums,
                    std::span<const std::uint32_t, 4> a, std::span<const std::uint32_t, 2> b,
                    const MeetingPoint& point);

// Loads 8 by 8 matrices of 16-bit numbers from shared memory, as ldmatrix does: one for each of
// `pairs`. Thread 8 i + r of the warp passes the address of row r of matrix i, 16 bytes. A thread
// gets numbers 2 (lane % 4) and the next of row lane / 4, or of that column if `transposed`.
void LoadMatrices(std::span<std::uint32_t> pairs, std::uint32_t address, bool transposed,
                  const MeetingPoint& point);

}  // namespace fathom::kernels::emulator
