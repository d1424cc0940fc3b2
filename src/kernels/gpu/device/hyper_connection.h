// Arguments of the kernels in hyper_connection.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

inline constexpr std::int64_t kMixChain = 192;  // numbers per fma chain

// Without data in `post`, the head: no mix. Runs a block per row; dynamic shared memory: a float
// for every chain, of which a row of fn has cols / kMixChain rounded up, and the streams have as
// many.
struct HcPreArguments {
  Matrix<const Bf16> streams;
  HcWeights w;
  std::int64_t sinkhorn_iterations = 0;
  float eps = 0.0f;
  float norm_eps = 0.0f;
  Matrix<Bf16> out;
  Matrix<float> post;  // [t, 4]
  Matrix<float> comb;  // [t, 16]
};

// Runs a thread per number of y.
struct HcPostArguments {
  Matrix<const Bf16> y;
  Matrix<const float> post;
  Matrix<const float> comb;
  Matrix<Bf16> streams;
};

// Runs a thread per number of the streams.
struct AddToStreamsArguments {
  Matrix<const Bf16> x;
  Matrix<Bf16> streams;
};

// Runs a thread per number of a mean.
struct MeanOfStreamsArguments {
  Matrix<const Bf16> streams;
  std::int64_t first_column = 0;
  Matrix<Bf16> out;
};

// Runs a thread per number of out.
struct AddArguments {
  Matrix<const float> x;
  Matrix<const float> y;
  Matrix<float> out;
};

}  // namespace fathom::kernels::gpu
