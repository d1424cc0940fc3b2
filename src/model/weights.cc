#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/integer_math.h"

namespace fathom {
namespace {

// What all scopes of one binding share.
struct Source {
  const Checkpoint& checkpoint;
  WeightBinder& binder;
  std::vector<std::unique_ptr<std::byte[]>>& aligned_copies;

  // The tensor's bytes at an address aligned for its elements; nullptr if there is none.
  const std::byte* Aligned(const TensorView* tensor) {
    if (tensor == nullptr || IsAligned(*tensor)) {
      return tensor == nullptr ? nullptr : tensor->bytes.data();
    }
    const std::size_t size = tensor->bytes.size();
    aligned_copies.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    std::memcpy(aligned_copies.back().get(), tensor->bytes.data(), size);
    return aligned_copies.back().get();
  }
};

// Binds tensors whose names begin with a prefix.
class Scope {
 public:
  Scope(Source& source, std::string prefix) : source_(source), prefix_(std::move(prefix)) {}

  // Without the dot at its end.
  std::string Name() const { return prefix_.substr(0, prefix_.size() - 1); }

  Scope Inner(std::string_view name) const { return {source_, prefix_ + std::string(name)}; }

  template <class T>
  std::span<const T> Vector(std::string_view name, DType dtype, std::int64_t size) const {
    const std::byte* data = Data(Bind(name, {dtype}, {size}));
    return {reinterpret_cast<const T*>(data), data == nullptr ? 0 : static_cast<std::size_t>(size)};
  }

  template <class T>
  Matrix<const T> Table(std::string_view name, DType dtype, std::int64_t rows,
                        std::int64_t cols) const {
    const std::byte* data = Data(Bind(name, {dtype}, {rows, cols}));
    return {reinterpret_cast<const T*>(data), rows, cols};
  }

  Weight Bf16Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    Weight weight{.format = WeightFormat::kBf16, .n = n, .k = k};
    weight.data = Data(Bind(name, ".weight", {DType::kBF16}, {n, k}));
    return weight;
  }

  // E4M3 with one scale per 128 x 128, stored as E8M0 or F32.
  Weight Fp8Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    Weight weight{.format = WeightFormat::kFp8, .n = n, .k = k};
    weight.data = Data(Bind(name, ".weight", {DType::kF8E4M3}, {n, k}));
    const TensorView* scales = Bind(name, ".scale", {DType::kF8E8M0, DType::kF32},
                                    {DivideUp(n, kFp8Block), DivideUp(k, kFp8Block)});
    weight.scales = Data(scales);
    if (scales != nullptr && scales->dtype == DType::kF32) {
      weight.scale_format = ScaleFormat::kF32;
    }
    return weight;
  }

  RowParallelWeight RowParallel(std::string_view name, std::int64_t n, std::int64_t k) const {
    RowParallelWeight weight{.whole = Fp8Matrix(name, n, k)};
    weight.whole.k_parts = RowParallelParts(k);
    return weight;
  }

  // wo_a is FP8 in the published files and BF16 in some repacks.
  Weight Fp8OrBf16Matrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    return DTypeOf(name) == DType::kBF16 ? Bf16Matrix(name, n, k) : Fp8Matrix(name, n, k);
  }

  // Routed experts are FP4 (two values a byte, one scale per row and 32 columns) or FP8.
  Weight ExpertMatrix(std::string_view name, std::int64_t n, std::int64_t k) const {
    if (DTypeOf(name) == DType::kF8E4M3) {
      return Fp8Matrix(name, n, k);
    }
    Weight weight{.format = WeightFormat::kFp4, .n = n, .k = k};
    weight.data = Data(Bind(name, ".weight", {DType::kI8}, {n, k / 2}));
    weight.scales = Data(Bind(name, ".scale", {DType::kF8E8M0}, {n, k / kFp4Block}));
    return weight;
  }

  HcWeights HyperConnection(std::string_view name, std::int64_t hidden, bool head) const {
    const std::int64_t rows = head ? kHcHeadRows : kHcBlockRows;
    return {
        .fn = Floats(name, "_fn", {rows, 4 * hidden}),
        .base = Floats(name, "_base", {rows}),
        .scale = Floats(name, "_scale", {head ? 1 : 3}),
    };
  }

 private:
  const TensorView* Bind(std::string_view name, std::string_view suffix,
                         std::initializer_list<DType> allowed,
                         std::initializer_list<std::int64_t> shape) const {
    return source_.binder.Bind(fmt::format("{}{}{}", prefix_, name, suffix), allowed, shape);
  }
  const TensorView* Bind(std::string_view name, std::initializer_list<DType> allowed,
                         std::initializer_list<std::int64_t> shape) const {
    return Bind(name, "", allowed, shape);
  }

  const float* Floats(std::string_view name, std::string_view suffix,
                      std::initializer_list<std::int64_t> shape) const {
    return reinterpret_cast<const float*>(Data(Bind(name, suffix, {DType::kF32}, shape)));
  }

  std::optional<DType> DTypeOf(std::string_view name) const {
    const TensorView* tensor = source_.checkpoint.Find(fmt::format("{}{}.weight", prefix_, name));
    return tensor == nullptr ? std::nullopt : std::optional(tensor->dtype);
  }

  const std::byte* Data(const TensorView* tensor) const { return source_.Aligned(tensor); }

  Source& source_;
  std::string prefix_;
};

CompressorWeights BindCompressor(const Scope& scope, const ModelConfig& config, int ratio,
                                 std::int64_t width) {
  const std::int64_t inputs = (ratio == 4 ? 2 : 1) * width;
  return {
      .wkv = scope.Bf16Matrix("wkv", inputs, config.hidden_size),
      .wgate = scope.Bf16Matrix("wgate", inputs, config.hidden_size),
      .ape = scope.Table<float>("ape", DType::kF32, ratio, inputs).data,
      .norm = scope.Vector<Bf16>("norm.weight", DType::kBF16, width),
  };
}

AttentionWeights BindAttention(const Scope& scope, const ModelConfig& config, int ratio) {
  const std::int64_t heads_dim = config.num_attention_heads * config.head_dim;
  const std::int64_t latent = config.o_groups * config.o_lora_rank;
  AttentionWeights attention{
      .wq_a = scope.Fp8Matrix("wq_a", config.q_lora_rank, config.hidden_size),
      .wq_b = scope.Fp8Matrix("wq_b", heads_dim, config.q_lora_rank),
      .wkv = scope.Fp8Matrix("wkv", config.head_dim, config.hidden_size),
      .wo_a = scope.Fp8OrBf16Matrix("wo_a", latent, heads_dim / config.o_groups),
      .wo_b = scope.RowParallel("wo_b", config.hidden_size, latent),
      .q_norm = scope.Vector<Bf16>("q_norm.weight", DType::kBF16, config.q_lora_rank),
      .kv_norm = scope.Vector<Bf16>("kv_norm.weight", DType::kBF16, config.head_dim),
      .attn_sink = scope.Vector<float>("attn_sink", DType::kF32, config.num_attention_heads),
  };
  if (ratio != 0) {
    attention.compressor =
        BindCompressor(scope.Inner("compressor."), config, ratio, config.head_dim);
  }
  if (ratio == 4) {
    const Scope indexer = scope.Inner("indexer.");
    attention.indexer = {
        .wq_b = indexer.Fp8Matrix("wq_b", config.index_n_heads * config.index_head_dim,
                                  config.q_lora_rank),
        .weights_proj =
            indexer.Bf16Matrix("weights_proj", config.index_n_heads, config.hidden_size),
        .compressor =
            BindCompressor(indexer.Inner("compressor."), config, ratio, config.index_head_dim),
    };
  }
  return attention;
}

MoeWeights BindMoe(const Scope& scope, const ModelConfig& config, bool hash_routed) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = config.moe_intermediate_size;
  MoeWeights moe{.name = scope.Name(),
                 .gate = scope.Bf16Matrix("gate", config.n_routed_experts, hidden)};
  if (hash_routed) {
    moe.tid2eid = scope.Table<std::int64_t>("gate.tid2eid", DType::kI64, config.vocab_size,
                                            config.num_experts_per_tok);
  } else {
    moe.bias = scope.Vector<float>("gate.bias", DType::kF32, config.n_routed_experts);
  }
  const Scope shared = scope.Inner("shared_experts.");
  moe.shared_experts = {.w1 = shared.Fp8Matrix("w1", width, hidden),
                        .w2 = shared.RowParallel("w2", hidden, width),
                        .w3 = shared.Fp8Matrix("w3", width, hidden)};
  moe.experts.reserve(static_cast<std::size_t>(config.n_routed_experts));
  for (std::int64_t e = 0; e < config.n_routed_experts; ++e) {
    const Scope expert = scope.Inner(fmt::format("experts.{}.", e));
    moe.experts.push_back({.w1 = expert.ExpertMatrix("w1", width, hidden),
                           .w2 = expert.ExpertMatrix("w2", hidden, width),
                           .w3 = expert.ExpertMatrix("w3", width, hidden)});
  }
  return moe;
}

BlockWeights BindBlock(const Scope& scope, const ModelConfig& config, std::int64_t index, int ratio,
                       bool hash_routed) {
  return {
      .index = index,
      .ratio = ratio,
      .attn_norm = scope.Vector<Bf16>("attn_norm.weight", DType::kBF16, config.hidden_size),
      .ffn_norm = scope.Vector<Bf16>("ffn_norm.weight", DType::kBF16, config.hidden_size),
      .hc_attn = scope.HyperConnection("hc_attn", config.hidden_size, false),
      .hc_ffn = scope.HyperConnection("hc_ffn", config.hidden_size, false),
      .attn = BindAttention(scope.Inner("attn."), config, ratio),
      .ffn = BindMoe(scope.Inner("ffn."), config, hash_routed),
  };
}

}  // namespace

Weight WithoutData(Weight weight) {
  weight.data = nullptr;
  weight.scales = nullptr;
  return weight;
}

ExpertWeights WithoutData(const ExpertWeights& expert) {
  return {WithoutData(expert.w1), WithoutData(expert.w2), WithoutData(expert.w3)};
}

ModelWeights BindWeights(const Checkpoint& checkpoint, const ModelConfig& config, bool bind_mtp,
                         WeightBinder& binder) {
  ModelWeights weights;
  Source source{checkpoint, binder, weights.aligned_copies};
  const Scope scope(source, "");
  const std::int64_t hidden = config.hidden_size;
  weights.embed = scope.Table<Bf16>("embed.weight", DType::kBF16, config.vocab_size, hidden);
  weights.hc_head = scope.HyperConnection("hc_head", hidden, true);
  weights.norm = scope.Vector<Bf16>("norm.weight", DType::kBF16, hidden);
  weights.head = scope.Bf16Matrix("head", config.vocab_size, hidden);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    weights.layers.push_back(BindBlock(scope.Inner(fmt::format("layers.{}.", i)), config, i,
                                       config.compress_ratios[static_cast<std::size_t>(i)],
                                       i < config.num_hash_layers));
  }
  if (bind_mtp) {
    const Scope mtp = scope.Inner("mtp.0.");
    weights.mtp = MtpWeights{
        .block = BindBlock(mtp, config, config.num_hidden_layers, 0, false),
        .enorm = mtp.Vector<Bf16>("enorm.weight", DType::kBF16, hidden),
        .hnorm = mtp.Vector<Bf16>("hnorm.weight", DType::kBF16, hidden),
        .norm = mtp.Vector<Bf16>("norm.weight", DType::kBF16, hidden),
        .e_proj = mtp.Fp8Matrix("e_proj", hidden, hidden),
        .h_proj = mtp.Fp8Matrix("h_proj", hidden, hidden),
        .hc_head = mtp.HyperConnection("hc_head", hidden, true),
    };
  }
  return weights;
}

}  // namespace fathom
