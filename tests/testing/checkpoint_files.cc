#include "tests/testing/checkpoint_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kBlock = 128;

// Collects the tensors of one shard, by their names without the block's prefix.
class ShardBuilder {
 public:
  ShardBuilder(const ModelConfig& config, const NativeOptions& options)
      : config_(config), options_(options) {}

  void Add(std::string_view name, DType dtype, std::vector<std::int64_t> shape) {
    tensors_.push_back({fmt::format("{}{}", prefix_, name), dtype, std::move(shape)});
  }
  void AddFp8(std::string_view name, std::int64_t rows, std::int64_t cols) {
    Add(fmt::format("{}.weight", name), DType::kF8E4M3, {rows, cols});
    Add(fmt::format("{}.scale", name), options_.scales, {rows / kBlock, cols / kBlock});
  }
  void AddExpert(std::string_view name, std::int64_t rows, std::int64_t cols) {
    if (options_.experts == ExpertDType::kFp8) {
      AddFp8(name, rows, cols);
      return;
    }
    Add(fmt::format("{}.weight", name), DType::kI8, {rows, cols / 2});
    Add(fmt::format("{}.scale", name), DType::kF8E8M0, {rows, cols / 32});
  }

  // ratio: 0, 4 or 128.
  void AddBlock(std::string prefix, int ratio, bool routes_by_token) {
    prefix_ = std::move(prefix);
    AddNormsAndStreams();
    AddAttention();
    AddExperts(routes_by_token);
    if (ratio != 0) {
      AddCompressor("attn.compressor", ratio, config_.head_dim);
    }
    if (ratio == 4) {
      AddFp8("attn.indexer.wq_b", config_.index_n_heads * config_.index_head_dim,
             config_.q_lora_rank);
      Add("attn.indexer.weights_proj.weight", DType::kBF16,
          {config_.index_n_heads, config_.hidden_size});
      AddCompressor("attn.indexer.compressor", ratio, config_.index_head_dim);
    }
  }

  void AddHead(std::string prefix) {
    prefix_ = std::move(prefix);
    Add("norm.weight", DType::kBF16, {config_.hidden_size});
    Add("hc_head_fn", DType::kF32, {4, 4 * config_.hidden_size});
    Add("hc_head_base", DType::kF32, {4});
    Add("hc_head_scale", DType::kF32, {1});
  }

  // Behind AddBlock("mtp.J."): what a stage has beyond a block.
  void AddDraftExtras(int stage) {
    const std::int64_t d = config_.hidden_size;
    if (options_.head == NativeHead::kMtp) {
      Add("enorm.weight", DType::kBF16, {d});
      Add("hnorm.weight", DType::kBF16, {d});
      AddFp8("e_proj", d, d);
      AddFp8("h_proj", d, d);
      AddHead(prefix_);
      return;
    }
    Check(config_.dspark.has_value(), "DSpark tensors need a DSpark configuration");
    if (stage == 0) {
      const auto n_targets =
          static_cast<std::int64_t>(config_.dspark->dspark_target_layer_ids.size());
      AddFp8("main_proj", d, n_targets * d);
      Add("main_norm.weight", DType::kBF16, {d});
    }
    if (stage == options_.n_draft_stages - 1) {
      const std::int64_t rank = config_.dspark->dspark_markov_rank;
      AddHead(prefix_);
      Add("markov_head.markov_w1.weight", DType::kBF16, {config_.vocab_size, rank});
      Add("markov_head.markov_w2.weight", DType::kBF16, {config_.vocab_size, rank});
      Add("confidence_head.proj.weight", DType::kBF16, {1, d + rank});
    }
  }

  // Widest elements first, so that all are aligned.
  std::vector<TensorSpec> Take() {
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const TensorSpec& a, const TensorSpec& b) {
                       return ElementBytes(a.dtype) > ElementBytes(b.dtype);
                     });
    prefix_.clear();
    return std::exchange(tensors_, {});
  }

 private:
  void AddNormsAndStreams() {
    Add("attn_norm.weight", DType::kBF16, {config_.hidden_size});
    Add("ffn_norm.weight", DType::kBF16, {config_.hidden_size});
    for (const std::string_view part : {"attn", "ffn"}) {
      Add(fmt::format("hc_{}_fn", part), DType::kF32, {24, 4 * config_.hidden_size});
      Add(fmt::format("hc_{}_base", part), DType::kF32, {24});
      Add(fmt::format("hc_{}_scale", part), DType::kF32, {3});
    }
  }

  void AddAttention() {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t all_heads = config_.num_attention_heads * config_.head_dim;
    const std::int64_t latent = config_.o_groups * config_.o_lora_rank;
    Add("attn.attn_sink", DType::kF32, {config_.num_attention_heads});
    Add("attn.q_norm.weight", DType::kBF16, {config_.q_lora_rank});
    Add("attn.kv_norm.weight", DType::kBF16, {config_.head_dim});
    AddFp8("attn.wq_a", config_.q_lora_rank, d);
    AddFp8("attn.wq_b", all_heads, config_.q_lora_rank);
    AddFp8("attn.wkv", config_.head_dim, d);
    AddFp8("attn.wo_a", latent, all_heads / config_.o_groups);
    AddFp8("attn.wo_b", d, latent);
  }

  void AddExperts(bool routes_by_token) {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t width = config_.moe_intermediate_size;
    Add("ffn.gate.weight", DType::kBF16, {config_.n_routed_experts, d});
    if (routes_by_token) {
      Add("ffn.gate.tid2eid", DType::kI64, {config_.vocab_size, config_.num_experts_per_tok});
    } else {
      Add("ffn.gate.bias", DType::kF32, {config_.n_routed_experts});
    }
    AddFp8("ffn.shared_experts.w1", width, d);
    AddFp8("ffn.shared_experts.w2", d, width);
    AddFp8("ffn.shared_experts.w3", width, d);
    for (std::int64_t e = 0; e < config_.n_routed_experts; ++e) {
      AddExpert(fmt::format("ffn.experts.{}.w1", e), width, d);
      AddExpert(fmt::format("ffn.experts.{}.w2", e), d, width);
      AddExpert(fmt::format("ffn.experts.{}.w3", e), width, d);
    }
  }

  void AddCompressor(std::string_view name, int ratio, std::int64_t dim) {
    const std::int64_t overlapping = ratio == 4 ? 2 : 1;
    Add(fmt::format("{}.ape", name), DType::kF32, {ratio, dim * overlapping});
    for (const std::string_view matrix : {"wkv", "wgate"}) {
      Add(fmt::format("{}.{}.weight", name, matrix), DType::kBF16,
          {dim * overlapping, config_.hidden_size});
    }
    Add(fmt::format("{}.norm.weight", name), DType::kBF16, {dim});
  }

  const ModelConfig& config_;
  const NativeOptions& options_;
  std::string prefix_;
  std::vector<TensorSpec> tensors_;
};

}  // namespace

std::int64_t Bytes(const TensorSpec& tensor) {
  return TensorBytes(tensor.dtype, tensor.shape).value();
}

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>((header.size() >> (8 * i)) & 0xFFu);
  }
  return bytes.append(header).append(data);
}

std::string SafetensorsHeaderText(std::span<const TensorSpec> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::int64_t begin = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::int64_t end = begin + Bytes(tensor);
    fmt::format_to(std::back_inserter(text),
                   R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", tensor.name,
                   Name(tensor.dtype), ShapeToString(tensor.shape), begin, end);
    begin = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  EXPECT_TRUE(file.good()) << "cannot write " << path;
}

void WriteSafetensors(const std::filesystem::path& path, std::span<const TensorSpec> tensors) {
  const std::string start = SafetensorsBytes(SafetensorsHeaderText(tensors), "");
  WriteFile(path, start);
  std::int64_t bytes = static_cast<std::int64_t>(start.size());
  for (const TensorSpec& tensor : tensors) {
    bytes += Bytes(tensor);
  }
  std::error_code error;
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes), error);
  EXPECT_FALSE(error) << path << ": " << error.message();
}

Checkpoint OpenZeros(const std::filesystem::path& directory, std::span<const TensorSpec> tensors) {
  WriteSafetensors(directory / "model.safetensors", tensors);
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? std::move(*checkpoint) : Checkpoint();
}

void WriteIndex(const std::filesystem::path& directory,
                std::span<const std::pair<std::string, std::string>> weight_map,
                std::int64_t total_size) {
  std::string text = fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{)", total_size);
  std::string_view separator = "\n";
  for (const auto& [tensor, file] : weight_map) {
    fmt::format_to(std::back_inserter(text), R"({}"{}":"{}")", separator, tensor, file);
    separator = ",\n";
  }
  text += "}}";
  WriteFile(directory / "model.safetensors.index.json", text);
}

std::vector<std::vector<TensorSpec>> NativeShards(const ModelConfig& config,
                                                  const NativeOptions& options) {
  std::vector<std::vector<TensorSpec>> shards;
  ShardBuilder builder(config, options);
  builder.Add("embed.weight", DType::kBF16, {config.vocab_size, config.hidden_size});
  shards.push_back(builder.Take());
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    builder.AddBlock(fmt::format("layers.{}.", i),
                     config.compress_ratios[static_cast<std::size_t>(i)],
                     i < config.num_hash_layers);
    shards.push_back(builder.Take());
  }
  builder.AddHead("");
  builder.Add("head.weight", DType::kBF16, {config.vocab_size, config.hidden_size});
  shards.push_back(builder.Take());
  const int n_stages = options.head == NativeHead::kNone ? 0 : options.n_draft_stages;
  for (int stage = 0; stage < n_stages; ++stage) {
    builder.AddBlock(fmt::format("mtp.{}.", stage), 0, false);
    builder.AddDraftExtras(stage);
    shards.push_back(builder.Take());
  }
  return shards;
}

void WriteSparseCheckpoint(const std::filesystem::path& directory, std::string_view config_json,
                           const NativeOptions& options) {
  const Result<ModelConfig> config = ParseModelConfig(config_json, "config.json");
  ASSERT_TRUE(config) << config.error().message;
  WriteFile(directory / "config.json", config_json);
  const std::vector<std::vector<TensorSpec>> shards = NativeShards(*config, options);
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::int64_t total_size = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    WriteSafetensors(directory / file, shards[i]);
    for (const TensorSpec& tensor : shards[i]) {
      weight_map.emplace_back(tensor.name, file);
      total_size += Bytes(tensor);
    }
  }
  WriteIndex(directory, weight_map, total_size);
}

}  // namespace fathom::testing
