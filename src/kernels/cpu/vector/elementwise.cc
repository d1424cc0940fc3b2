// Operations without a sum across a row (docs/numerics.md 8), and the scores of the router.
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/math.h"

namespace fathom::kernels::KERNEL_ISA {

void SwiGluRow(const uint16_t* gate, const uint16_t* up, float clamp, const float* factor,
               int64_t n, uint16_t* out) {
  const F32 high = Set(clamp);
  const F32 low = Set(-clamp);
  ForVectors(n, [&](int64_t i, int lanes) {
    const F32 g = Min(high, LoadBf16Some(gate + i, lanes));
    const F32 v = Max(low, Min(high, LoadBf16Some(up + i, lanes)));
    F32 a = Silu<VectorOps>(g) * v;
    if (factor != nullptr) {
      a = Set(*factor) * a;
    }
    StoreBf16Some(out + i, a, lanes);
  });
}

void AddRow(const float* a, int64_t n, float* sum) {
  ForVectors(n, [&](int64_t i, int lanes) {
    StoreSome(sum + i, LoadSome(sum + i, lanes) + LoadSome(a + i, lanes), lanes);
  });
}

void AddBf16Row(const uint16_t* a, int64_t n, uint16_t* sum) {
  ForVectors(n, [&](int64_t i, int lanes) {
    StoreBf16Some(sum + i, LoadBf16Some(sum + i, lanes) + LoadBf16Some(a + i, lanes), lanes);
  });
}

void AddRows(const float* x, const float* y, int64_t n, float* out) {
  ForVectors(n, [&](int64_t i, int lanes) {
    StoreSome(out + i, LoadSome(x + i, lanes) + LoadSome(y + i, lanes), lanes);
  });
}

void MeanRow(const uint16_t* streams, int64_t d, uint16_t* mean) {
  ForVectors(d, [&](int64_t i, int lanes) {
    const uint16_t* x = streams + i;
    const F32 sum =
        ((LoadBf16Some(x, lanes) + LoadBf16Some(x + d, lanes)) + LoadBf16Some(x + 2 * d, lanes)) +
        LoadBf16Some(x + 3 * d, lanes);
    StoreBf16Some(mean + i, Set(0.25f) * sum, lanes);
  });
}

void CombineRow(const uint16_t* rows, int64_t count, const uint16_t* shared, int64_t d,
                uint16_t* out) {
  ForVectors(d, [&](int64_t i, int lanes) {
    F32 sum = LoadBf16Some(rows + i, lanes);
    for (int64_t j = 1; j < count; ++j) {
      sum = sum + LoadBf16Some(rows + j * d + i, lanes);
    }
    StoreBf16Some(out + i, sum + LoadBf16Some(shared + i, lanes), lanes);
  });
}

void RouterScores(const float* logits, int64_t n, float* scores) {
  ForVectors(n, [&](int64_t i, int lanes) {
    StoreSome(scores + i, SquareRoot(Softplus<VectorOps>(LoadSome(logits + i, lanes))), lanes);
  });
}

}  // namespace fathom::kernels::KERNEL_ISA
