// Hardware with round figures, and the model that is planned on it.
#pragma once

#include "measure/plan/hardware.h"
#include "measure/plan/model_sizes.h"

namespace fathom::testing {

// 100 GB at 1000 GB/s, 1, 2 and 4 TFLOP/s; links of 100 and 10 GB/s, 1 and 10 microseconds.
inline plan::Hardware RoundMachine(std::int64_t n_nodes, std::int64_t devices_per_node) {
  return {.name = "round",
          .n_nodes = n_nodes,
          .devices_per_node = devices_per_node,
          .device = {.memory_bytes = 100e9,
                     .bytes_per_second = 1e12,
                     .fp4_flops = 4e12,
                     .fp8_flops = 2e12,
                     .bf16_flops = 1e12},
          .node = {.bytes_per_second = 100e9, .latency = 1e-6},
          .network = {.bytes_per_second = 10e9, .latency = 10e-6}};
}

inline const plan::ModelSizes& FlashSizes() {
  static const plan::ModelSizes sizes("flash", FlashConfig());
  return sizes;
}

}  // namespace fathom::testing
