// The table of the main model's tensors (docs/spec/checkpoint.md 2): a line for each with its name,
// kind, shape, component, shard and weights. Binding, loading, shards, random checkpoints and costs
// read this table; draft heads have tables of their own (model/draft).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "kernels/layer_cache.h"
#include "kernels/operations.h"
#include "model/weights.h"

namespace fathom::model {

struct ModelTensor {
  // The stored tensors and their types, after NAME; weights of matrices are [rows, cols].
  enum class Kind {
    kVector,     // .weight BF16 [rows]: a norm
    kFloats,     // F32 [rows, cols]; [rows] if there is one column
    kGates,      // _fn F32 [rows, cols], _base F32 [rows], _scale F32 [GateScales()]
    kTable,      // .weight BF16 [rows, cols], of which a pass reads some rows
    kIds,        // I64 [rows, cols], of which a pass reads some rows
    kBf16,       // .weight BF16
    kFp8,        // .weight E4M3, .scale per block of 128 x 128
    kFp8OrBf16,  // kFp8 in the published files, kBf16 in some repacks
    kFp4OrFp8,   // .weight of two E2M1 a byte with a .scale per 32 columns, or kFp8
  };
  // The part that a tensor rank has.
  enum class Shard {
    kWhole,
    kRows,        // an equal share of the rows
    kParts,       // rows that make its columns of the matrix that follows
    kColumns,     // parts of the sum (Weight::k_parts)
    kTokens,      // all, but ranks share the products by tokens
    kVocabulary,  // an equal share of the rows among all ranks of a stage
  };
  // The rows of the tables of docs/spec/flops_bytes.md 1 and 2.
  enum class Component {
    kAttention,  // projections
    kShared,     // shared experts
    kHead,
    kCompressor,
    kIndexer,
    kHyper,   // hyper-connections
    kRouter,  // without the tables of hash layers
    kOther,   // norms, sinks; routed experts, which the tables count apart
  };

  std::string name;  // in its block, stage or model
  Kind kind = Kind::kVector;
  std::int64_t rows = 0;
  std::int64_t cols = 1;
  Component component = Component::kOther;
  Shard shard = Shard::kWhole;
  std::int64_t products_per_token = 1;  // products with the matrix per token
  std::int64_t stage = 0;               // stage of a draft head

  // Returns the numbers of the scale of kGates.
  std::int64_t GateScales() const { return rows == kStreams ? 1 : 3; }
};

// The gates of the streams before a head.
inline ModelTensor StreamHead(const ModelConfig& config) {
  return {"hc_head", ModelTensor::Kind::kGates, kStreams, kStreams * config.hidden_size,
          ModelTensor::Component::kHyper};
}

// Calls visit(tensor, weights) for the tensors outside the blocks. `model`: ModelWeights, constant
// or not; likewise below.
template <class Model, class Visit>
void VisitOutside(Model& model, const ModelConfig& config, const Visit& visit) {
  using enum ModelTensor::Kind;
  using enum ModelTensor::Shard;
  using enum ModelTensor::Component;
  const std::int64_t hidden = config.hidden_size;
  visit({"embed", kTable, config.vocab_size, hidden, kOther, kRows}, model.embed);
  visit(StreamHead(config), model.hc_head);
  visit({"norm", kVector, hidden}, model.norm);
  visit({"head", kBf16, config.vocab_size, hidden, kHead, kVocabulary}, model.head);
}

template <class Attention, class Visit>
void VisitAttention(Attention& attn, const ModelConfig& config, int ratio, const Visit& visit) {
  using enum ModelTensor::Kind;
  using enum ModelTensor::Shard;
  using enum ModelTensor::Component;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t rank = config.q_lora_rank;
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t groups = config.o_groups;
  const std::int64_t latent = groups * config.o_lora_rank;
  const auto compressor = [&](const std::string& prefix, auto& c, std::int64_t width,
                              ModelTensor::Component component) {
    const std::int64_t inputs = CompressorCache{.ratio = ratio}.Overlap() * width;
    visit({prefix + "wkv", kBf16, inputs, hidden, component}, c.wkv);
    visit({prefix + "wgate", kBf16, inputs, hidden, component}, c.wgate);
    visit({prefix + "ape", kFloats, ratio, inputs, component}, c.ape);
    visit({prefix + "norm", kVector, width, 1, component}, c.norm);
  };
  visit({"attn.wq_a", kFp8, rank, hidden, kAttention}, attn.wq_a);
  visit({"attn.wq_b", kFp8, heads * config.head_dim, rank, kAttention, kRows}, attn.wq_b);
  visit({"attn.wkv", kFp8, config.head_dim, hidden, kAttention}, attn.wkv);
  visit({"attn.wo_a", kFp8OrBf16, latent, heads * config.head_dim / groups, kAttention, kRows},
        attn.wo_a);
  visit({"attn.wo_b", kFp8, hidden, latent, kAttention, kColumns}, attn.wo_b);
  visit({"attn.q_norm", kVector, rank}, attn.q_norm);
  visit({"attn.kv_norm", kVector, config.head_dim}, attn.kv_norm);
  visit({"attn.attn_sink", kFloats, heads, 1, kOther, kRows}, attn.attn_sink);
  if (ratio == 0) return;
  compressor("attn.compressor.", attn.compressor, config.head_dim, kCompressor);
  if (ratio != 4) return;
  const std::int64_t queries = config.index_n_heads * config.index_head_dim;
  auto& indexer = attn.indexer;
  visit({"attn.indexer.wq_b", kFp8, queries, rank, kIndexer, kTokens}, indexer.wq_b);
  visit({"attn.indexer.weights_proj", kBf16, config.index_n_heads, hidden, kIndexer, kTokens},
        indexer.weights_proj);
  compressor("attn.indexer.compressor.", indexer.compressor, config.index_head_dim, kIndexer);
}

// Calls visit(tensor, weights) for the tensors of a block except the routed experts. Reads the
// index and the ratio of the block. `block`: BlockWeights.
template <class Block, class Visit>
void VisitBlock(Block& block, const ModelConfig& config, const Visit& visit) {
  using enum ModelTensor::Kind;
  using enum ModelTensor::Shard;
  using enum ModelTensor::Component;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = config.moe_intermediate_size;
  const std::int64_t experts = config.n_routed_experts;
  auto& moe = block.ffn;
  auto& shared = moe.shared_experts;
  visit({"attn_norm", kVector, hidden}, block.attn_norm);
  visit({"ffn_norm", kVector, hidden}, block.ffn_norm);
  visit({"hc_attn", kGates, kHcGates, kStreams * hidden, kHyper}, block.hc_attn);
  visit({"hc_ffn", kGates, kHcGates, kStreams * hidden, kHyper}, block.hc_ffn);
  VisitAttention(block.attn, config, block.ratio, visit);
  visit({"ffn.gate", kBf16, experts, hidden, kRouter}, moe.gate);
  if (block.index < config.num_hash_layers) {
    visit({"ffn.gate.tid2eid", kIds, config.vocab_size, config.num_experts_per_tok, kRouter},
          moe.tid2eid);
  } else {
    visit({"ffn.gate.bias", kFloats, experts, 1, kRouter}, moe.bias);
  }
  visit({"ffn.shared_experts.w1", kFp8, width, hidden, kShared, kParts}, shared.w1);
  visit({"ffn.shared_experts.w2", kFp8, hidden, width, kShared, kColumns}, shared.w2);
  visit({"ffn.shared_experts.w3", kFp8, width, hidden, kShared, kParts}, shared.w3);
}

// Calls visit(tensor, weights) for the tensors of a routed expert, named "w1" to "w3" after
// ExpertPrefix. `expert`: ExpertWeights.
template <class Expert, class Visit>
void VisitExpert(Expert& expert, const ModelConfig& config, const Visit& visit) {
  using enum ModelTensor::Kind;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = config.moe_intermediate_size;
  visit({"w1", kFp4OrFp8, width, hidden}, expert.w1);
  visit({"w2", kFp4OrFp8, hidden, width}, expert.w2);
  visit({"w3", kFp4OrFp8, width, hidden}, expert.w3);
}

// Returns the tensors without weights, for example of the block that has this index and ratio.
std::vector<ModelTensor> OutsideTensors(const ModelConfig& config);
std::vector<ModelTensor> BlockTensors(const ModelConfig& config, std::int64_t index, int ratio);
std::vector<ModelTensor> ExpertTensors(const ModelConfig& config);

// Returns the start of the names of an expert in its block: "ffn.experts.3.".
std::string ExpertPrefix(std::int64_t expert);
// Returns true for the name of a tensor of a routed expert.
inline bool IsRoutedExpert(std::string_view name) {
  return name.find(".ffn.experts.") != name.npos;
}
// Returns true for the name of a table that gives each token its experts.
inline bool IsExpertTable(std::string_view name) { return name.ends_with("tid2eid"); }

}  // namespace fathom::model
