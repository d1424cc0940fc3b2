// Arguments of the kernels that use Hopper's units (hopper_*.cu).
#pragma once

#include <stdint.h>

#include "tests/hopper/tensor_map.h"

namespace fathom::testing {

// out [64, 64] = A B^T of 16-bit numbers, A [64, depth], B [64, depth]; depth a multiple of 64. The
// maps have tiles of 64 rows by 64 columns, swizzled.
struct TiledProductArguments {
  TensorMap a;
  TensorMap b;
  int64_t depth = 0;
  float* out = nullptr;
};
inline constexpr int64_t kTiledProductShared = 1024 + 4 * 8192;

// out [64, N] = A B^T, A [64, 32], B [N, 32]: A through registers (RegisterProduct) or shared
// memory (SharedProduct), B written by threads.
struct RegisterProductArguments {
  const uint16_t* a = nullptr;
  const uint16_t* b = nullptr;
  float* out = nullptr;
};
inline constexpr int64_t kRegisterProductShared = 1024 + 64 * 64 + 256 * 64;

// out [16, 8] += A B by one warp, A [16, 16], B [16, 8] (or [8, 16], its columns as rows).
struct WarpProductArguments {
  const uint16_t* a = nullptr;
  const uint16_t* b = nullptr;
  bool b_has_columns = false;
  float* out = nullptr;
};
inline constexpr int64_t kWarpProductShared = 512 + 256;

// out [blocks] = the sum of x over the blocks of a cluster, x [blocks, 64].
struct ClusterSumArguments {
  const float* x = nullptr;
  float* out = nullptr;
};
inline constexpr int kSumCluster = 4;
inline constexpr int64_t kClusterSumShared = 64 * 4 + 16;

// tile [4, 128 bytes] of a matrix as a copy lays it into shared memory.
struct TileCopyArguments {
  TensorMap map;
  int32_t column = 0;
  int32_t row = 0;
  int32_t bytes = 0;  // of the tile
  unsigned char* out = nullptr;
};
inline constexpr int64_t kTileCopyShared = 1024 + 8192;

// The first of three warpgroups gives registers to the others, if it `releases`.
struct MoveRegistersArguments {
  bool releases = false;
  int32_t* out = nullptr;  // [384] ones
};

// The fault that a kernel commits.
enum class HopperFault : int32_t {
  // In a product.
  kNone,
  kNoProxyFence,       // behind what threads wrote and it reads
  kNoWgmmaFence,       // behind a use of the sums
  kSumsBeforeWait,     // reads sums of an unfinished product
  kOperandBeforeWait,  // writes a register operand of one
  kWriteUnderProduct,  // writes shared memory that one reads
  kEndsWithProduct,    // an unfinished one
  kUnwrittenOperand,
  kBadDescriptor,   // with a base offset
  kTwoDescriptors,  // of one product
  kNoMeeting,       // half of a warpgroup begins one
  // In a copy.
  kRightCopy,
  kReadBeforeWait,
  kReadWithoutWait,     // by threads that have not waited, nor met one that has
  kOverArrival,         // while bytes are to come
  kArrivalInNextPhase,  // one too many, and nobody waits
  kUnfencedInit,
  kUnseenInit,  // a barrier of another thread, without a meeting
  kTwoCopies,   // to one place
  kEndsWithCopy,
  kUnalignedCopy,
  kUnalignedTile,
  kMissingBytes,  // expects more than the copy brings
  // In other uses.
  kNoBarrier,      // an arrival where there is none
  kBarrierIsData,  // its bytes are read
  kRace,           // two threads write one place
  kUnwritten,      // a read of what nobody has written
  kBehindTheEnd,   // of shared memory
  kNoSuchBlock,    // of the cluster
  kTooManyRegisters,
  kUnequalNamed,  // a named barrier that one warp misses
  kBadNamed,      // a named barrier without whole waves
};
struct HopperFaultArguments {
  HopperFault fault = HopperFault::kNone;
  const uint32_t* in = nullptr;  // 1 KiB
  TensorMap map;                 // of `in`: tiles of 8 rows by 128 bytes
  float* out = nullptr;          // [128]
};
inline constexpr int64_t kHopperFaultShared = 16384;

// Tells the peers of a number each, and adds what they have told.
struct PeerSumArguments {
  int32_t rank = 0;
  int32_t n_ranks = 0;
  int32_t first = 0;        // the number of thread 0; that of thread i is i more
  int32_t* told[4] = {};    // by rank: [n_ranks, blocks, threads] in its memory
  uint32_t* flags[4] = {};  // by rank: counts the blocks that have told it
  int32_t* out = nullptr;   // [blocks, threads]
};

}  // namespace fathom::testing
