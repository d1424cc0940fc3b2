// The weights of a DeepSeek-V4 checkpoint, bound once by name and shape (docs/spec/checkpoint.md
// 2).
//
// These are the shapes of the whole model; with several ranks, each has some rows or columns of a
// matrix (distributed/weight_shard.h).
//
// Everything here is a view of the mapped files, used in place, unless all of it has moved to huge
// pages (model/weight_pieces.h). The one exception: a tensor whose address is not a multiple of its
// element size (the format allows it) is copied to an aligned one.
// The format of every matrix follows from the types of its own tensors, never from config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_binder.h"
#include "kernels/weight_format.h"

namespace fathom::model {

struct DrafterKind;

struct CompressorWeights {
  Weight wkv;                  // [overlap * width, hidden] BF16
  Weight wgate;                // as wkv
  Matrix<const float> ape;     // [ratio, overlap * width]
  std::span<const Bf16> norm;  // [width]
};

struct IndexerWeights {
  Weight wq_b;          // [index_n_heads * index_head_dim, q_lora_rank]
  Weight weights_proj;  // [index_n_heads, hidden] BF16
  CompressorWeights compressor;
};

// A matrix whose sum over k may be divided between processes.
struct RowParallelWeight {
  Weight whole;               // without data where a process has parts of the matrix
  std::vector<Weight> parts;  // the parts of this process among whole.k_parts; empty if not divided
};

struct AttentionWeights {
  Weight wq_a;                       // [q_lora_rank, hidden]
  Weight wq_b;                       // [heads * head_dim, q_lora_rank]
  Weight wkv;                        // [head_dim, hidden]
  Weight wo_a;                       // [o_groups * o_lora_rank, heads * head_dim / o_groups]
  RowParallelWeight wo_b;            // [hidden, o_groups * o_lora_rank]
  std::span<const Bf16> q_norm;      // [q_lora_rank]
  std::span<const Bf16> kv_norm;     // [head_dim]
  std::span<const float> attn_sink;  // [heads]
  CompressorWeights compressor;      // ratio 4 and 128
  IndexerWeights indexer;            // ratio 4
};

struct SharedExpertWeights {
  Weight w1;             // [moe_intermediate_size, hidden]
  RowParallelWeight w2;  // [hidden, moe_intermediate_size]
  Weight w3;             // as w1
};

struct MoeWeights {
  std::string name;                    // prefix of its tensors: "layers.3.ffn"
  Weight gate;                         // [experts, hidden] BF16
  std::span<const float> bias;         // [experts]; empty in hash layers
  Matrix<const std::int64_t> tid2eid;  // [vocab, experts per token]; empty in learned layers
  SharedExpertWeights shared_experts;
  std::vector<ExpertWeights> experts;

  // Returns the experts that a hash layer gives a token; none for a token without a row.
  std::span<const std::int64_t> ExpertsOfToken(Token token) const {
    if (token < 0 || token >= tid2eid.rows) return {};
    return {tid2eid.Row(token), static_cast<std::size_t>(tid2eid.cols)};
  }
  // Returns the bytes of the table of a hash layer, of which a step reads some rows.
  std::int64_t TableBytes() const {
    return tid2eid.rows * tid2eid.cols * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
};

struct BlockWeights {
  std::int64_t index = 0;  // index among all blocks: layers, then draft blocks
  int ratio = 0;
  std::span<const Bf16> attn_norm;  // [hidden]
  std::span<const Bf16> ffn_norm;
  HcWeights hc_attn;
  HcWeights hc_ffn;
  AttentionWeights attn;
  MoeWeights ffn;
};

// The weights of a drafter (model/draft). Its blocks follow the layers; the drafter knows the
// meaning of its other weights.
struct DraftWeights {
  std::vector<BlockWeights> blocks;
  std::vector<Weight> matrices;
  std::vector<std::size_t> vocabulary_matrices;  // matrices whose rows are divided like the head's
  std::vector<std::span<const Bf16>> vectors;    // [hidden] each
  HcWeights hc_head;
};

struct ModelWeights {
  ModelConfig config;        // the sizes of the whole model
  Matrix<const Bf16> embed;  // [vocab, hidden]
  std::vector<BlockWeights> layers;
  HcWeights hc_head;
  std::span<const Bf16> norm;
  Weight head;                        // [vocab, hidden] BF16
  std::optional<DraftWeights> draft;  // without blocks where another stage has the drafter
  std::vector<std::unique_ptr<std::byte[]>> aligned_copies;
  std::vector<std::unique_ptr<std::byte[]>> column_copies;  // this rank's columns of matrices
  PageMemory memory;  // all weights, if they were moved; no other copies exist then
};

// Returns the weight as another rank's: shape and format without data.
Weight WithoutData(Weight weight);
ExpertWeights WithoutData(const ExpertWeights& expert);

// Binds every tensor that the configuration requires, and the tensors of a drafter unless it is
// null. A tensor that is missing or wrong is recorded in the binder and left empty: call
// binder.Finish() before use.
ModelWeights BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                         const DrafterKind* drafter, WeightBinder& binder);
// Binds the weights without a list of problems. Errors: as WeightBinder::Finish.
Result<ModelWeights> BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                                 const DrafterKind* drafter);

}  // namespace fathom::model
