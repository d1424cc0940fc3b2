#include "measure/bench/costs.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>

#include "kernels/matrix_bytes.h"
#include "kernels/weight_format.h"
#include "kv_cache/layout.h"
#include "model/model_tensors.h"

namespace fathom::measure::bench {
namespace {

double Number(std::int64_t x) { return static_cast<double>(x); }

// Returns the matrix of a tensor in its stored format, without data.
Weight StoredMatrix(const ModelTensor& tensor, const StoredFormats& formats) {
  using Kind = ModelTensor::Kind;
  Weight matrix = {.n = tensor.rows, .k = tensor.cols};
  const bool is_expert = tensor.kind == Kind::kFp4OrFp8;
  if (is_expert && formats.fp4_experts) {
    matrix.format = WeightFormat::kFp4;
  } else if (tensor.kind != Kind::kBf16 &&
             !(tensor.kind == Kind::kFp8OrBf16 && formats.bf16_groups)) {
    matrix.format = WeightFormat::kFp8;
    const std::int64_t scale_bytes = is_expert ? formats.expert_scale_bytes : formats.scale_bytes;
    if (scale_bytes == sizeof(float)) matrix.scale_format = ScaleFormat::kF32;
  }
  return matrix;
}

// Returns the bytes of a tensor with its scales, and the operations of the products of one token.
// Numbers that are read but not multiplied with rows have no operations.
Cost TensorCost(const ModelTensor& tensor, const StoredFormats& formats) {
  using Kind = ModelTensor::Kind;
  const std::int64_t size = tensor.rows * tensor.cols;
  const double flops = 2 * Number(tensor.products_per_token * size);
  switch (tensor.kind) {
    case Kind::kVector:
    case Kind::kTable:
      return {Number(2 * size), 0};
    case Kind::kFloats:
      return {Number(4 * size), 0};
    case Kind::kIds:
      return {Number(8 * size), 0};
    case Kind::kGates:
      return {Number(4 * (size + tensor.rows + tensor.GateScales())), flops};
    default: {
      const Weight matrix = StoredMatrix(tensor, formats);
      return {Number(matrix.n * matrix.RowBytes() + matrix.AllScaleBytes()), flops};
    }
  }
}

LayerCosts BuildLayer(const ModelConfig& config, const StoredFormats& formats, std::int64_t index,
                      int ratio) {
  using Component = ModelTensor::Component;
  using Shard = ModelTensor::Shard;
  LayerCosts layer = {.ratio = ratio};
  for (const ModelTensor& tensor : BlockTensors(config, index, ratio)) {
    const Cost cost = TensorCost(tensor, formats);
    if (tensor.kind == ModelTensor::Kind::kIds) {
      layer.table_bytes = cost.bytes;
      layer.table_row_bytes = cost.bytes / Number(tensor.rows);
      continue;
    }
    layer.dense[static_cast<std::size_t>(tensor.component)] += cost;
    const bool is_shared = tensor.shard == Shard::kRows || tensor.shard == Shard::kColumns;
    if (tensor.component == Component::kAttention && is_shared) layer.by_heads += cost;
    if (tensor.shard == Shard::kTokens) layer.by_tokens += cost;
  }
  for (const ModelTensor& tensor : ExpertTensors(config)) {
    layer.expert += TensorCost(tensor, formats);
  }
  return layer;
}

// Costs of hc_head, norm and LM head.
Costs OutsideLayers(const ModelConfig& config) {
  Costs costs;
  for (const ModelTensor& tensor : OutsideTensors(config)) {
    if (tensor.kind == ModelTensor::Kind::kTable) continue;
    costs[static_cast<std::size_t>(tensor.component)] += TensorCost(tensor, {});
  }
  return costs;
}

CachedRowBytes ComputeCachedRowBytes(const ModelConfig& config) {
  const CacheShape shape = {.keys = {config.head_dim, config.qk_rope_head_dim}};
  return {.window = Number(ComputeLayerBytes({.window_slots = 1}, shape).constant),
          .compressed = Number(ComputeLayerBytes({.compressed_rows = 1}, shape).growing),
          .index = Number(ComputeLayerBytes({.index_rows = 1}, shape).growing)};
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
  const auto type = [&](const ModelTensor& tensor, std::string_view suffix) {
    const TensorView* found = checkpoint.Find(fmt::format("layers.0.{}{}", tensor.name, suffix));
    return found == nullptr ? std::nullopt : std::optional(found->dtype);
  };
  StoredFormats formats;
  const ModelConfig names = {.o_groups = 1};  // only the names of the tensors are used
  for (const ModelTensor& tensor : BlockTensors(names, 0, 0)) {
    if (tensor.kind == ModelTensor::Kind::kFp8OrBf16) {
      formats.bf16_groups = type(tensor, ".weight") == DType::kBF16;
    }
    if (tensor.kind == ModelTensor::Kind::kFp8 && type(tensor, ".scale") == DType::kF32) {
      formats.scale_bytes = sizeof(float);
    }
  }
  ModelTensor expert = ExpertTensors(names).front();
  expert.name = ExpertPrefix(0) + expert.name;
  formats.fp4_experts = type(expert, ".weight") != DType::kF8E4M3;
  if (type(expert, ".scale") == DType::kF32) formats.expert_scale_bytes = sizeof(float);
  return formats;
}

ModelCosts::ModelCosts(const ModelConfig& config, const StoredFormats& formats)
    : config_(config),
      formats_(formats),
      cached_(ComputeCachedRowBytes(config)),
      outside_(OutsideLayers(config)),
      embed_row_bytes_(Number(2 * config.hidden_size)) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(
        BuildLayer(config, formats, i, config.compress_ratios[static_cast<std::size_t>(i)]));
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
  const ReadRows read =
      CountReadRows(position, config_.sliding_window, ratio, ratio == 4 ? config_.index_topk : 0);
  const double window = Number(read.window);
  const double chosen = Number(read.compressed);
  const double scored = Number(read.scored);
  const std::int64_t heads = config_.num_attention_heads * config_.head_dim;
  // For every head of the indexer: the products, then ReLU, weight and sum.
  return {.core = {window * cached_.window + chosen * cached_.compressed,
                   4 * Number(heads) * (window + chosen)},
          .indexer = {scored * cached_.index,
                      scored * Number(config_.index_n_heads * (2 * config_.index_head_dim + 3))}};
}

double ModelCosts::embedding_bytes() const { return embed_row_bytes_ * Number(config_.vocab_size); }

DraftCosts ModelCosts::Draft(const DrafterKind& drafter) const {
  const std::vector<int> ratios = drafter.sizes(config_).ratios;
  DraftCosts draft = {
      .block = BuildLayer(config_, formats_, config_.num_hidden_layers, ratios.front()),
      .n_blocks = std::ssize(ratios),
      .rest = TensorCost(StreamHead(config_), formats_)};
  for (const ModelTensor& tensor : drafter.tensors(config_)) {
    const Cost cost = TensorCost(tensor, formats_);
    draft.rest += cost;
    if (tensor.shard == ModelTensor::Shard::kVocabulary) draft.by_vocabulary += cost;
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

}  // namespace fathom::measure::bench
