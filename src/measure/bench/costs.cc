#include "measure/bench/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/layer_cache.h"
#include "kernels/weight_format.h"
#include "kv_cache/layout.h"

namespace fathom::bench {
namespace {

constexpr std::int64_t kHyperGates = 24;
constexpr std::int64_t kHyperScales = 3;

double Number(std::int64_t x) { return static_cast<double>(x); }

std::int64_t Blocks(std::int64_t n) { return (n + kFp8Block - 1) / kFp8Block; }

// Cost of a matrix [n, k]: bytes with scales, and the operations of one input row.
Cost Stored(double bytes, std::int64_t n, std::int64_t k) { return {bytes, 2 * Number(n * k)}; }
Cost F32(std::int64_t n, std::int64_t k) { return Stored(Number(4 * n * k), n, k); }
Cost Bf16Matrix(std::int64_t n, std::int64_t k) { return Stored(Number(2 * n * k), n, k); }
Cost Fp8(std::int64_t n, std::int64_t k, std::int64_t scale_bytes) {
  return Stored(Number(n * k + Blocks(n) * Blocks(k) * scale_bytes), n, k);
}
Cost Fp4(std::int64_t n, std::int64_t k) { return Stored(Number(n * k / 2 + n * k / 32), n, k); }
// Cost of numbers that are read but not multiplied with rows.
Cost Vector(std::int64_t bytes) { return {Number(bytes), 0}; }

// Collects the tensors of one layer under their components.
class LayerBuilder {
 public:
  LayerBuilder(const ModelConfig& config, const StoredFormats& formats)
      : config_(config), formats_(formats) {}

  LayerCosts Build(int ratio, bool hash_routed) {
    layer_ = {.ratio = ratio};
    AddAttention();
    if (ratio != 0) {
      AddCompressor(Component::kCompressor, config_.head_dim);
    }
    if (ratio == 4) {
      layer_.by_tokens = Fp8(config_.index_n_heads * config_.index_head_dim, config_.q_lora_rank,
                             formats_.scale_bytes);
      layer_.by_tokens += Bf16Matrix(config_.index_n_heads, config_.hidden_size);
      Add(Component::kIndexer, layer_.by_tokens);
      AddCompressor(Component::kIndexer, config_.index_head_dim);
    }
    AddExperts(hash_routed);
    AddRest();
    return layer_;
  }

 private:
  void Add(Component component, const Cost& cost) {
    layer_.dense[static_cast<std::size_t>(component)] += cost;
  }

  void AddAttention() {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t heads = config_.num_attention_heads * config_.head_dim;
    const std::int64_t latent = config_.o_groups * config_.o_lora_rank;
    const std::int64_t scale = formats_.scale_bytes;
    const std::int64_t group = heads / config_.o_groups;
    for (const Cost& cost :
         {Fp8(heads, config_.q_lora_rank, scale),
          formats_.bf16_wo_a ? Bf16Matrix(latent, group) : Fp8(latent, group, scale),
          Fp8(d, latent, scale)}) {
      layer_.by_heads += cost;
    }
    for (const Cost& cost :
         {Fp8(config_.q_lora_rank, d, scale), Fp8(config_.head_dim, d, scale), layer_.by_heads}) {
      Add(Component::kAttention, cost);
    }
  }

  void AddCompressor(Component component, std::int64_t width) {
    const std::int64_t inputs = CompressorCache{.ratio = layer_.ratio}.Overlap() * width;
    Add(component, Bf16Matrix(inputs, config_.hidden_size));  // wkv
    Add(component, Bf16Matrix(inputs, config_.hidden_size));  // wgate
    Add(component, Vector(4 * layer_.ratio * inputs));        // ape
    Add(component, Vector(2 * width));                        // norm
  }

  void AddExperts(bool hash_routed) {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t width = config_.moe_intermediate_size;
    const std::int64_t n_experts = config_.n_routed_experts;
    Add(Component::kRouter, Bf16Matrix(n_experts, d));
    if (hash_routed) {
      layer_.table_row_bytes = Number(8 * config_.num_experts_per_tok);
      layer_.table_bytes = layer_.table_row_bytes * Number(config_.vocab_size);
    } else {
      Add(Component::kRouter, Vector(4 * n_experts));
    }
    for (int i = 0; i < 3; ++i) {  // w1, w3, and w2 with sizes exchanged
      const std::int64_t n = i < 2 ? width : d;
      const std::int64_t k = i < 2 ? d : width;
      Add(Component::kShared, Fp8(n, k, formats_.scale_bytes));
      layer_.expert += formats_.fp4_experts ? Fp4(n, k) : Fp8(n, k, formats_.expert_scale_bytes);
    }
  }

  void AddRest() {
    const std::int64_t d = config_.hidden_size;
    for (int i = 0; i < 2; ++i) {  // before attention and before the experts
      Add(Component::kHyper, F32(kHyperGates, kStreams * d));
      Add(Component::kHyper, Vector(4 * (kHyperGates + kHyperScales)));
      Add(Component::kOther, Vector(2 * d));  // norm
    }
    Add(Component::kOther,
        Vector(2 * (config_.q_lora_rank + config_.head_dim)));  // norms of the low-rank projections
    Add(Component::kOther, Vector(4 * config_.num_attention_heads));  // sinks
  }

  const ModelConfig& config_;
  const StoredFormats& formats_;
  LayerCosts layer_;
};

Cost HyperHead(std::int64_t d) {
  Cost cost = F32(kStreams, kStreams * d);
  cost += Vector(4 * (kStreams + 1));
  return cost;
}

// Costs of hc_head, norm and LM head.
Costs OutsideLayers(const ModelConfig& config) {
  const std::int64_t d = config.hidden_size;
  Costs costs;
  costs[static_cast<std::size_t>(Component::kHead)] += Bf16Matrix(config.vocab_size, d);
  costs[static_cast<std::size_t>(Component::kHyper)] += HyperHead(d);
  costs[static_cast<std::size_t>(Component::kOther)] += Vector(2 * d);
  return costs;
}

Cost TensorCost(const DraftTensor& tensor, const StoredFormats& formats) {
  using Kind = DraftTensor::Kind;
  if (tensor.kind == Kind::kVector || tensor.kind == Kind::kTable) {
    return Vector(2 * tensor.rows * tensor.cols);
  }
  const Cost once = tensor.kind == Kind::kFp8 ? Fp8(tensor.rows, tensor.cols, formats.scale_bytes)
                                              : Bf16Matrix(tensor.rows, tensor.cols);
  return {once.bytes, Number(tensor.products_per_token) * once.flops};
}

CachedRowBytes ComputeCachedRowBytes(const ModelConfig& config) {
  const CacheShape shape = {.keys = {config.head_dim, config.qk_rope_head_dim}};
  return {.window = Number(ComputeLayerBytes({.window_slots = 1}, shape).constant),
          .compressed = Number(ComputeLayerBytes({.compressed_rows = 1}, shape).growing),
          .index = Number(ComputeLayerBytes({.index_rows = 1}, shape).growing)};
}

std::optional<DType> FindType(const Checkpoint& checkpoint, std::string_view name) {
  const TensorView* tensor = checkpoint.Find(name);
  return tensor == nullptr ? std::nullopt : std::optional(tensor->dtype);
}

}  // namespace

Cost Sum(const Costs& costs) {
  Cost sum;
  for (const Cost& cost : costs) {
    sum += cost;
  }
  return sum;
}

StoredFormats FindStoredFormats(const Checkpoint& checkpoint) {
  const auto scale_bytes = [&](std::string_view name) {
    return FindType(checkpoint, name) == DType::kF32 ? 4 : 1;
  };
  return {.fp4_experts = FindType(checkpoint, "layers.0.ffn.experts.0.w1.weight") != DType::kF8E4M3,
          .scale_bytes = scale_bytes("layers.0.attn.wkv.scale"),
          .expert_scale_bytes = scale_bytes("layers.0.ffn.experts.0.w1.scale"),
          .bf16_wo_a = FindType(checkpoint, "layers.0.attn.wo_a.weight") == DType::kBF16};
}

ModelCosts::ModelCosts(const ModelConfig& config, const StoredFormats& formats)
    : config_(config),
      formats_(formats),
      cached_(ComputeCachedRowBytes(config)),
      outside_(OutsideLayers(config)),
      embed_row_bytes_(Number(2 * config.hidden_size)) {
  LayerBuilder builder(config_, formats);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(builder.Build(config.compress_ratios[static_cast<std::size_t>(i)],
                                    i < config.num_hash_layers));
  }
}

Cost ModelCosts::Dense(std::int64_t n_tokens, std::int64_t n_logit_rows) const {
  Cost cost;
  double row_bytes = embed_row_bytes_;
  for (const LayerCosts& layer : layers_) {
    cost += Sum(layer.dense);
    row_bytes += layer.table_row_bytes;
  }
  cost.bytes += Number(n_tokens) * row_bytes;
  cost.flops *= Number(n_tokens);
  if (n_logit_rows > 0) {
    const Cost head = Sum(outside_);
    cost += {head.bytes, head.flops * Number(n_logit_rows)};
  }
  return cost;
}

Costs ModelCosts::ByComponent() const {
  Costs costs = outside_;
  Cost& other = costs[static_cast<std::size_t>(Component::kOther)];
  other.bytes += embed_row_bytes_;
  for (const LayerCosts& layer : layers_) {
    for (std::size_t i = 0; i < kComponents; ++i) {
      costs[i] += layer.dense[i];
    }
    other.bytes += layer.table_row_bytes;
  }
  return costs;
}

Cost ModelCosts::RoutedPerToken() const {
  const double n = Number(config_.num_experts_per_tok * config_.num_hidden_layers);
  return {n * layers_.front().expert.bytes, n * layers_.front().expert.flops};
}

double ModelCosts::RoutedBytes(double n_experts) const {
  return n_experts * layers_.front().expert.bytes;
}

Cost ModelCosts::Attention(std::int64_t position) const {
  Cost cost;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const AttentionCost of_layer = LayerAttention(layer, position);
    cost += of_layer.core;
    cost += of_layer.indexer;
  }
  return cost;
}

AttentionCost ModelCosts::LayerAttention(std::size_t layer, std::int64_t position) const {
  const int ratio = layers_[layer].ratio;
  const double window = Number(std::min(config_.sliding_window, position + 1));
  const double visible = Number(VisibleRows(position, ratio));
  const double chosen = ratio == 4 ? std::min(Number(config_.index_topk), visible) : visible;
  AttentionCost cost;
  cost.core = {window * cached_.window + chosen * cached_.compressed,
               4 * Number(config_.num_attention_heads * config_.head_dim) * (window + chosen)};
  // Scores are not needed if all visible rows are chosen.
  if (ratio == 4 && visible > chosen) {
    // For every head: the products, then ReLU, weight and sum.
    cost.indexer = {visible * cached_.index,
                    visible * Number(config_.index_n_heads * (2 * config_.index_head_dim + 3))};
  }
  return cost;
}

double ModelCosts::embedding_bytes() const { return embed_row_bytes_ * Number(config_.vocab_size); }

DraftCosts ModelCosts::Draft(const DrafterKind& drafter) const {
  const std::vector<int> ratios = drafter.sizes(config_).ratios;
  DraftCosts draft = {
      .block = LayerBuilder(config_, formats_).Build(ratios.front(), /*hash_routed=*/false),
      .n_blocks = std::ssize(ratios),
      .rest = HyperHead(config_.hidden_size)};
  for (const DraftTensor& tensor : drafter.tensors(config_)) {
    const Cost cost = TensorCost(tensor, formats_);
    draft.rest += cost;
    if (tensor.is_by_vocabulary) draft.by_vocabulary += cost;
  }
  return draft;
}

std::vector<std::string> ModelCosts::Differences(const Checkpoint& checkpoint) const {
  std::map<std::int64_t, double> found;  // bytes by layer; -1: outside
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (!IsDraftTensor(tensor.name)) {
      found[ParseLayer(tensor.name).value_or(-1)] += static_cast<double>(tensor.view.bytes.size());
    }
  }
  std::vector<std::string> lines;
  const auto compare = [&](std::int64_t layer, double expected) {
    if (found[layer] != expected) {
      lines.push_back(
          fmt::format("{}: expected {:.0f} bytes by the formulas, found {:.0f} in the tensors",
                      layer < 0 ? "outside the layers" : fmt::format("layer {}", layer), expected,
                      found[layer]));
    }
  };
  compare(-1, Sum(outside_).bytes + embedding_bytes());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    compare(static_cast<std::int64_t>(i),
            Sum(layers_[i].dense).bytes + layers_[i].table_bytes +
                layers_[i].expert.bytes * Number(config_.n_routed_experts));
  }
  return lines;
}

}  // namespace fathom::bench
