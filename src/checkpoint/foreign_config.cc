#include "checkpoint/foreign_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace fathom::checkpoint {
namespace {

// A published field, and the name that transformers 5 writes instead.
struct Renamed {
  std::string_view published;
  std::string_view transformers;
};
constexpr Renamed kRenamed[] = {
    {"compress_ratios", "layer_types"},         {"num_hash_layers", "mlp_layer_types"},
    {"rope_scaling", "rope_parameters"},        {"rope_theta", "rope_parameters"},
    {"compress_rope_theta", "rope_parameters"}, {"qk_rope_head_dim", "partial_rotary_factor"},
};

Status CheckQuantization(const ConfigFields& fields, std::string_view file_name) {
  constexpr std::string_view kMethod = "quantization_config.quant_method";
  if (fields.Has(kMethod) && fields.Text(kMethod) != "fp8") {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: {}: expected \"fp8\", found {}: the weights are quantized by another "
                     "program; take the published checkpoint, whose weights are FP8 and FP4",
                     file_name, kMethod, fields.Describe(kMethod));
  }
  for (const std::string_view name :
       {"quantization_config.moe_quant_algo", "quantization_config.quant_algo"}) {
    if (!fields.Has(name)) continue;
    return MakeError(ErrorCode::kUnsupported,
                     "{}: {}: expected nothing, found {}: the experts are quantized by ModelOpt "
                     "(NVFP4); take the published checkpoint, whose experts are FP4 or FP8 with "
                     "scales of E8M0",
                     file_name, name, fields.Describe(name));
  }
  return {};
}

// Returns the ratio of a kind of layer; none: the kind is unknown.
std::optional<int> RatioOf(std::string_view kind) {
  if (kind == "sliding_attention" || kind == "full_attention") return 0;
  if (kind == "compressed_sparse_attention") return 4;
  if (kind == "heavily_compressed_attention") return 128;
  return std::nullopt;
}

// Returns the texts of a list, or nothing if the field is not such a list.
std::vector<std::string_view> Texts(const ConfigFields& fields, std::string_view name) {
  std::vector<std::string_view> texts;
  const JsonValue* list = fields.Find(name);
  if (list == nullptr || !list->IsArray()) return texts;
  for (const JsonValue& entry : list->items()) texts.push_back(entry.text());
  return texts;
}

void CheckLayerTypes(ConfigFields& fields, const ModelConfig& config) {
  const std::vector<std::string_view> kinds = Texts(fields, "layer_types");
  const std::size_t n = std::min(kinds.size(), config.compress_ratios.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::optional<int> ratio = RatioOf(kinds[i]);
    if (ratio && *ratio == config.compress_ratios[i]) continue;
    fields.AddProblem("layer_types",
                      fmt::format("the kind of ratio {} at position {}, by compress_ratios",
                                  config.compress_ratios[i], i),
                      fmt::format("\"{}\"", kinds[i]));
    return;
  }
}

void CheckHashLayers(ConfigFields& fields, const ModelConfig& config) {
  const std::vector<std::string_view> kinds = Texts(fields, "mlp_layer_types");
  if (kinds.empty()) return;
  const auto n_hash = std::ranges::count(kinds, "hash_moe");
  if (n_hash == config.num_hash_layers) return;
  fields.AddProblem(
      "mlp_layer_types",
      fmt::format("{} times \"hash_moe\", by num_hash_layers", config.num_hash_layers),
      fmt::format("{}", n_hash));
}

void CheckNumber(ConfigFields& fields, std::string_view name, double expected,
                 std::string_view by) {
  const JsonValue* value = fields.Find(name);
  const std::optional<double> found = value == nullptr ? std::nullopt : value->AsDouble();
  constexpr double kRounding = 1e-6;  // rounding of numbers that were written as float
  if (!found || std::abs(*found - expected) <= kRounding * std::abs(expected)) return;
  fields.AddProblem(name, fmt::format("{:g}, by {}", expected, by), fields.Describe(name));
}

}  // namespace

Status CheckIsPublishedForm(const ConfigFields& fields, std::string_view file_name) {
  const auto* renamed = std::ranges::find_if(kRenamed, [&](const Renamed& field) {
    return !fields.Has(field.published) && fields.Has(field.transformers);
  });
  if (renamed != std::end(kRenamed)) {
    return MakeError(ErrorCode::kUnsupported,
                     "{}: {} in place of {}: written by transformers' save_pretrained; take the "
                     "published config.json",
                     file_name, renamed->transformers, renamed->published);
  }
  return CheckQuantization(fields, file_name);
}

void CheckFormsAgree(ConfigFields& fields, const ModelConfig& config) {
  CheckLayerTypes(fields, config);
  CheckHashLayers(fields, config);
  CheckNumber(fields, "compress_rates.compressed_sparse_attention", 4, "the model");
  CheckNumber(fields, "compress_rates.heavily_compressed_attention", 128, "the model");
  CheckNumber(fields, "rope_parameters.main.rope_theta", double{config.rope_theta}, "rope_theta");
  CheckNumber(fields, "rope_parameters.compress.rope_theta", double{config.compress_rope_theta},
              "compress_rope_theta");
  CheckNumber(fields, "rope_parameters.compress.factor", double{config.rope_scaling.factor},
              "rope_scaling.factor");
  if (config.head_dim > 0) {
    CheckNumber(fields, "partial_rotary_factor",
                static_cast<double>(config.qk_rope_head_dim) / static_cast<double>(config.head_dim),
                "qk_rope_head_dim / head_dim");
  }
}

}  // namespace fathom::checkpoint
