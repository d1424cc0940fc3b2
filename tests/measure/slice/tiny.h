// A configuration of which a slice takes no more than a megabyte a layer.
#pragma once

#include "measure/slice/shapes.h"

namespace fathom::testing {

inline ModelConfig TinyConfig(const SliceSizes& sizes) {
  ModelConfig config = FlashConfig();
  config.hidden_size = 256;
  config.num_attention_heads = 4;
  config.head_dim = 128;
  config.q_lora_rank = 128;
  config.o_groups = 2;
  config.o_lora_rank = 128;
  config.sliding_window = 16;
  config.index_n_heads = 4;
  config.index_topk = 8;
  config.moe_intermediate_size = 128;
  config.n_routed_experts = 8;
  config.num_experts_per_tok = 2;
  config.max_position_embeddings = 4096;
  return SliceConfig(config, sizes);
}

}  // namespace fathom::testing
