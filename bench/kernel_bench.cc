// Speed of the CPU kernels beside the limits of the machine, measured in the same run.
//
//   cmake --preset release -DFATHOM_BENCH=ON
//   cmake --build --preset release --target kernel_bench
//   build/release/kernel_bench --benchmark_filter='avx2/fp4/.*threads:2'
//
// Names: instruction set / operation / rows and parameters / threads. Each benchmark says which
// bytes and operations it counts (product_bench.cc, row_bench.cc, cache_bench.cc); whole models are
// measured by `fathom bench`.
#include <benchmark/benchmark.h>

#include "bench/harness.h"

int main(int argc, char** argv) {
  fathom::benchmarks::Rooflines rooflines;
  for (const fathom::kernels::Isa isa : fathom::kernels::AvailableIsas()) {
    if (isa == fathom::kernels::Isa::kScalar) {
      continue;
    }
    for (const int n_threads : {1, 2}) {
      const fathom::benchmarks::Registrar registrar({isa, n_threads}, rooflines);
      RegisterProducts(registrar);
      RegisterRows(registrar);
      RegisterCaches(registrar);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
