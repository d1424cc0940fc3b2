// What the machine can do at best: how fast one thread reads memory and how fast it multiplies.
#ifndef FATHOM_BENCH_ROOFLINE_H_
#define FATHOM_BENCH_ROOFLINE_H_

#include <stdint.h>

namespace fathom::avx2 {
// Reads `bytes` (a multiple of 1024) once; returns something that depends on all of them.
int64_t ReadBytes(const void* data, int64_t bytes);
// Does `count` multiply-adds (a multiple of 192) in registers.
float MultiplyAdds(int64_t count);
}  // namespace fathom::avx2

namespace fathom::avx512 {
int64_t ReadBytes(const void* data, int64_t bytes);
float MultiplyAdds(int64_t count);
}  // namespace fathom::avx512

#endif  // FATHOM_BENCH_ROOFLINE_H_
