#include "measure/slice/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "model/draft/drafters.h"

namespace fathom {
namespace {

constexpr std::int64_t kFp8Block = 128;
constexpr std::int64_t kFp4Block = 32;

// Collects the tensors of one part, by their names without its prefix.
class Part {
 public:
  Part(const ModelConfig& config, std::string prefix)
      : config_(config), hidden_(config.hidden_size), prefix_(std::move(prefix)) {}

  // ratio: 0, 4 or 128. is_hash: the block chooses experts by the token.
  void AddBlock(int ratio, bool is_hash = false) {
    AddNorm("attn_norm", hidden_);
    AddNorm("ffn_norm", hidden_);
    AddHyperConnection("hc_attn", 24, 3);
    AddHyperConnection("hc_ffn", 24, 3);
    AddAttention();
    if (ratio != 0) {
      AddCompressor("attn.compressor", ratio, config_.head_dim);
    }
    if (ratio == 4) {
      AddFp8("attn.indexer.wq_b", config_.index_n_heads * config_.index_head_dim,
             config_.q_lora_rank);
      AddBf16("attn.indexer.weights_proj", config_.index_n_heads, hidden_);
      AddCompressor("attn.indexer.compressor", ratio, config_.index_head_dim);
    }
    AddExperts(is_hash);
  }

  // Adds the stream gates before the logits.
  void AddStreamHead() { AddHyperConnection("hc_head", 4, 1); }

  // Adds a tensor of a draft head.
  void AddDraft(const DraftTensor& tensor) {
    switch (tensor.kind) {
      case DraftTensor::Kind::kVector:
        return AddNorm(tensor.name, tensor.rows);
      case DraftTensor::Kind::kFp8:
        return AddFp8(tensor.name, tensor.rows, tensor.cols);
      case DraftTensor::Kind::kBf16:
        return AddBf16(tensor.name, tensor.rows, tensor.cols);
      case DraftTensor::Kind::kTable:
        return AddValues(tensor.name + ".weight", DType::kBF16, {tensor.rows, tensor.cols}, 0, 1);
    }
  }

  // Streams begin with a deviation of 1.
  void AddEmbedding() {
    AddValues("embed.weight", DType::kBF16, {config_.vocab_size, hidden_}, 0, 1);
  }

  // Logits have the spread of a trained model's logits.
  void AddLogitHead() {
    constexpr double kSpread = 4;
    AddNorm("norm", hidden_);
    AddValues("head.weight", DType::kBF16, {config_.vocab_size, hidden_}, 0,
              kSpread / std::sqrt(static_cast<double>(hidden_)));
  }

  std::vector<SliceTensor> Take() {
    std::sort(tensors_.begin(), tensors_.end(), [](const SliceTensor& a, const SliceTensor& b) {
      return std::tuple(b.dtype, std::string_view(a.name)) <
             std::tuple(a.dtype, std::string_view(b.name));
    });
    return std::move(tensors_);
  }

 private:
  void AddValues(std::string_view name, DType dtype, std::vector<std::int64_t> shape, double mean,
                 double deviation) {
    tensors_.push_back({.name = fmt::format("{}{}", prefix_, name),
                        .dtype = dtype,
                        .shape = std::move(shape),
                        .mean = mean,
                        .deviation = deviation});
  }

  // Values near 1, like trained norms.
  void AddNorm(std::string_view name, std::int64_t size) {
    AddValues(fmt::format("{}.weight", name), DType::kBF16, {size}, 1, 0.1);
  }

  // Weights of 1 / sqrt(inputs) keep the root mean square of the inputs.
  static double Preserving(std::int64_t inputs) {
    return 1 / std::sqrt(static_cast<double>(inputs));
  }

  void AddBf16(std::string_view name, std::int64_t rows, std::int64_t cols) {
    AddValues(fmt::format("{}.weight", name), DType::kBF16, {rows, cols}, 0, Preserving(cols));
  }

  void AddFp8(std::string_view name, std::int64_t rows, std::int64_t cols) {
    AddValues(fmt::format("{}.weight", name), DType::kF8E4M3, {rows, cols}, 0, kE4m3Deviation);
    AddValues(fmt::format("{}.scale", name), DType::kF8E8M0,
              {(rows + kFp8Block - 1) / kFp8Block, (cols + kFp8Block - 1) / kFp8Block}, 0,
              Preserving(cols) / kE4m3Deviation);
  }

  void AddFp4(std::string_view name, std::int64_t rows, std::int64_t cols) {
    AddValues(fmt::format("{}.weight", name), DType::kI8, {rows, cols / 2}, 0, kE2m1Deviation);
    AddValues(fmt::format("{}.scale", name), DType::kF8E8M0, {rows, cols / kFp4Block}, 0,
              Preserving(cols) / kE2m1Deviation);
  }

  // Gates that are half open on average and depend equally on the streams and on the base.
  void AddHyperConnection(std::string_view name, std::int64_t rows, std::int64_t n_scales) {
    const std::int64_t inputs = config_.hc_mult * hidden_;
    AddValues(fmt::format("{}_fn", name), DType::kF32, {rows, inputs}, 0, Preserving(inputs));
    AddValues(fmt::format("{}_base", name), DType::kF32, {rows}, 0, 0.5);
    AddValues(fmt::format("{}_scale", name), DType::kF32, {n_scales}, 0.5, 0.05);
  }

  void AddAttention() {
    const std::int64_t all_heads = config_.num_attention_heads * config_.head_dim;
    const std::int64_t latent = config_.o_groups * config_.o_lora_rank;
    AddValues("attn.attn_sink", DType::kF32, {config_.num_attention_heads}, 0, 1);
    AddNorm("attn.q_norm", config_.q_lora_rank);
    AddNorm("attn.kv_norm", config_.head_dim);
    AddFp8("attn.wq_a", config_.q_lora_rank, hidden_);
    AddFp8("attn.wq_b", all_heads, config_.q_lora_rank);
    AddFp8("attn.wkv", config_.head_dim, hidden_);
    AddFp8("attn.wo_a", latent, all_heads / config_.o_groups);
    AddFp8("attn.wo_b", hidden_, latent);
  }

  void AddCompressor(std::string_view name, int ratio, std::int64_t dim) {
    const std::int64_t outputs = (ratio == 4 ? 2 : 1) * dim;  // windows of ratio 4 overlap
    AddValues(fmt::format("{}.ape", name), DType::kF32, {ratio, outputs}, 0, 0.5);
    AddBf16(fmt::format("{}.wkv", name), outputs, hidden_);
    AddBf16(fmt::format("{}.wgate", name), outputs, hidden_);
    AddNorm(fmt::format("{}.norm", name), dim);
  }

  void AddExperts(bool is_hash) {
    const std::int64_t width = config_.moe_intermediate_size;
    AddBf16("ffn.gate", config_.n_routed_experts, hidden_);
    if (is_hash) {
      tensors_.push_back({.name = prefix_ + "ffn.gate.tid2eid",
                          .dtype = DType::kI64,
                          .shape = {config_.vocab_size, config_.num_experts_per_tok},
                          .n_experts = config_.n_routed_experts});
    } else {
      // Far below the spread of the scores, so that no expert is preferred.
      AddValues("ffn.gate.bias", DType::kF32, {config_.n_routed_experts}, 0, 0.01);
    }
    AddFp8("ffn.shared_experts.w1", width, hidden_);
    AddFp8("ffn.shared_experts.w2", hidden_, width);
    AddFp8("ffn.shared_experts.w3", width, hidden_);
    for (std::int64_t e = 0; e < config_.n_routed_experts; ++e) {
      AddFp4(fmt::format("ffn.experts.{}.w1", e), width, hidden_);
      AddFp4(fmt::format("ffn.experts.{}.w2", e), hidden_, width);
      AddFp4(fmt::format("ffn.experts.{}.w3", e), width, hidden_);
    }
  }

  const ModelConfig& config_;
  const std::int64_t hidden_;
  const std::string prefix_;
  std::vector<SliceTensor> tensors_;
};

// Appends a part for each stage of the draft head.
void AddDraftParts(const ModelConfig& config, const DrafterKind& drafter,
                   std::vector<std::vector<SliceTensor>>& parts) {
  const std::vector<int> ratios = drafter.sizes(config).ratios;
  const std::vector<DraftTensor> tensors = drafter.tensors(config);
  for (std::int64_t stage = 0; stage < std::ssize(ratios); ++stage) {
    Part part(config, fmt::format("{}{}.", drafter.prefix, stage));
    part.AddBlock(ratios[static_cast<std::size_t>(stage)]);
    for (const DraftTensor& tensor : tensors) {
      if (tensor.stage == stage) part.AddDraft(tensor);
    }
    if (stage + 1 == std::ssize(ratios)) part.AddStreamHead();
    parts.push_back(part.Take());
  }
}

}  // namespace

std::int64_t ByteCount(const SliceTensor& tensor) {
  const std::optional<std::int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  Check(bytes.has_value(), "a tensor of a checked configuration has a size");
  return *bytes;
}

std::vector<std::vector<SliceTensor>> SliceParts(const ModelConfig& config) {
  std::vector<std::vector<SliceTensor>> parts;
  Part embedding(config, "");
  embedding.AddEmbedding();
  parts.push_back(embedding.Take());
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    Part layer(config, fmt::format("layers.{}.", i));
    layer.AddBlock(config.compress_ratios[static_cast<std::size_t>(i)], i < config.num_hash_layers);
    parts.push_back(layer.Take());
  }
  Part head(config, "");
  head.AddStreamHead();
  head.AddLogitHead();
  parts.push_back(head.Take());
  if (const DrafterKind* drafter = AnnouncedDrafter(config)) {
    AddDraftParts(config, *drafter, parts);
  }
  return parts;
}

}  // namespace fathom
