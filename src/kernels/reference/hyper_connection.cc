// Manifold-constrained hyper-connections (docs/numerics.md 5; docs/spec/model.md 3).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/math.h"
#include "kernels/reference/lanes.h"
#include "kernels/reference/reference_backend.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kMixChain = 192;  // numbers per fma chain

// Multiplies the streams x [width] of one token by w [width], a row of fn or x itself.
template <class W>
float MixProduct(const Bf16* x, std::int64_t width, const W& w) {
  return ChainProduct(
      width, kMixChain, [&](std::int64_t k) { return ToFloat(x[k]); }, w);
}

// Computes m[i] of the first n rows of fn; x [width] are the streams of one token.
void MixRow(const Bf16* x, std::int64_t width, const float* fn, float norm_eps, std::int64_t n,
            float* m) {
  const float sum = MixProduct(x, width, [&](std::int64_t k) { return ToFloat(x[k]); });
  const float r = 1.0f / std::sqrt(sum / static_cast<float>(width) + norm_eps);
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] = MixProduct(x, width, [&](std::int64_t k) { return fn[i * width + k]; }) * r;
  }
}

float SumOfFour(const float* c, std::int64_t stride) {
  return ((c[0] + c[stride]) + c[2 * stride]) + c[3 * stride];
}

// Divides every row of c [4, 4] by its sum + eps, or every column.
void Normalize(float* c, bool columns, float eps) {
  const std::int64_t along = columns ? kStreams : 1;
  const std::int64_t across = columns ? 1 : kStreams;
  for (std::int64_t i = 0; i < kStreams; ++i) {
    const float sum = SumOfFour(c + i * across, along) + eps;
    for (std::int64_t j = 0; j < kStreams; ++j) {
      c[i * across + j * along] = c[i * across + j * along] / sum;
    }
  }
}

// c [4, 4], in place: logits become a matrix whose rows and columns sum to (almost) 1.
void Sinkhorn(float* c, std::int64_t iterations, float eps) {
  for (std::int64_t i = 0; i < kStreams; ++i) {
    float* row = c + i * kStreams;
    const float maximum = *std::max_element(row, row + kStreams);
    for (std::int64_t j = 0; j < kStreams; ++j) {
      row[j] = Exp<ScalarOps>(row[j] - maximum);
    }
    const float sum = SumOfFour(row, 1);
    for (std::int64_t j = 0; j < kStreams; ++j) {
      row[j] = row[j] / sum + eps;
    }
  }
  Normalize(c, /*columns=*/true, eps);
  for (std::int64_t i = 1; i < iterations; ++i) {
    Normalize(c, /*columns=*/false, eps);
    Normalize(c, /*columns=*/true, eps);
  }
}

// Computes out [d] = sum of pre[s] * stream s, pre from the mixes m [4].
void MixDown(const Bf16* x, std::int64_t d, const float* m, const HcWeights& w, float eps,
             Bf16* out) {
  float pre[kStreams];
  for (int j = 0; j < kStreams; ++j) {
    pre[j] = Sigmoid<ScalarOps>(m[j] * w.scale[0] + w.base[j]) + eps;
  }
  for (std::int64_t i = 0; i < d; ++i) {
    float sum = pre[0] * ToFloat(x[i]);
    for (int s = 1; s < kStreams; ++s) {
      sum = sum + pre[s] * ToFloat(x[s * d + i]);
    }
    out[i] = ToBf16(sum);
  }
}

}  // namespace

struct ReferenceBackend::HyperOperations {
  ReferenceBackend& self;

  void Compute(const HcPreOp& op) {
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      float m[kHcGates];
      MixRow(op.streams.Row(row), op.streams.cols, op.w.fn, op.options.norm_eps, kHcGates, m);
      float* post = op.mix.post.Row(row);
      for (int j = 0; j < kStreams; ++j) {
        const int gate = kStreams + j;
        post[j] = 2.0f * Sigmoid<ScalarOps>(m[gate] * op.w.scale[1] + op.w.base[gate]);
      }
      float* comb = op.mix.comb.Row(row);
      for (int j = 0; j < kStreams * kStreams; ++j) {
        const int gate = 2 * kStreams + j;
        comb[j] = m[gate] * op.w.scale[2] + op.w.base[gate];
      }
      Sinkhorn(comb, op.options.sinkhorn_iterations, op.options.eps);
      MixDown(op.streams.Row(row), op.out.cols, m, op.w, op.options.eps, op.out.Row(row));
    }
  }

  void Compute(const HcPostOp& op) {
    const std::int64_t d = op.y.cols;
    for (std::int64_t row = 0; row < op.y.rows; ++row) {
      const float* post = op.mix.post.Row(row);
      const float* comb = op.mix.comb.Row(row);
      Bf16* s = op.streams.Row(row);
      for (std::int64_t i = 0; i < d; ++i) {
        const float value = ToFloat(op.y.Row(row)[i]);
        const float source[kStreams] = {ToFloat(s[i]), ToFloat(s[d + i]), ToFloat(s[2 * d + i]),
                                        ToFloat(s[3 * d + i])};
        for (int j = 0; j < kStreams; ++j) {
          float sum = comb[j] * source[0];
          for (int from = 1; from < kStreams; ++from) {
            sum = sum + comb[kStreams * from + j] * source[from];
          }
          s[j * d + i] = ToBf16(post[j] * value + sum);
        }
      }
    }
  }

  void Compute(const HcHeadOp& op) {
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      float m[kStreams];
      MixRow(op.streams.Row(row), op.streams.cols, op.w.fn, op.options.norm_eps, kStreams, m);
      MixDown(op.streams.Row(row), op.out.cols, m, op.w, op.options.eps, op.out.Row(row));
    }
  }

  void Compute(const AddToStreamsOp& op) {
    for (std::int64_t row = 0; row < op.x.rows; ++row) {
      for (std::int64_t i = 0; i < op.streams.cols; ++i) {
        Bf16& s = op.streams.Row(row)[i];
        s = ToBf16(ToFloat(s) + ToFloat(op.x.Row(row)[i % op.x.cols]));
      }
    }
  }

  void Compute(const MeanOfStreamsOp& op) {
    const std::int64_t d = op.streams.cols / kStreams;
    for (std::int64_t row = 0; row < op.out.rows; ++row) {
      for (std::int64_t i = 0; i < d; ++i) {
        float sum = ToFloat(op.streams.Row(row)[i]);
        for (std::int64_t stream = 1; stream < kStreams; ++stream) {
          sum = sum + ToFloat(op.streams.Row(row)[stream * d + i]);
        }
        op.out.Row(row)[op.first_column + i] = ToBf16(sum * (1.0f / kStreams));
      }
    }
  }

  void Compute(const AddOp& op) {
    for (std::int64_t i = 0; i < op.out.rows * op.out.cols; ++i) {
      op.out.data[i] = op.x.data[i] + op.y.data[i];
    }
  }
};

bool ReferenceBackend::ComputeHyper(const Operation& operation) {
  return ComputeBy(HyperOperations{*this}, operation);
}

}  // namespace fathom::kernels
