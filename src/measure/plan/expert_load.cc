#include "measure/plan/expert_load.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "base/line_reader.h"
#include "json/field_reader.h"
#include "json/json_value.h"

namespace fathom::measure::plan {
namespace {

constexpr double kLargest = 1e15;  // counts that are exact as doubles

std::size_t Layers(const ModelConfig& config) {
  return static_cast<std::size_t>(config.num_hidden_layers);
}

std::size_t Experts(const ModelConfig& config) {
  return static_cast<std::size_t>(config.n_routed_experts);
}

// Returns shares in proportion to the weights that add up to n_chosen. A token chooses an expert at
// most once: shares above 1 become 1, and the other experts get the rest; evenly, if they have no
// weight.
std::vector<double> ComputeShares(std::vector<double> weights, std::int64_t n_chosen) {
  std::vector<double> shares(weights.size(), 0.0);
  auto rest = static_cast<double>(n_chosen);
  for (bool is_final = false; !is_final;) {
    double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (sum <= 0) {
      for (std::size_t e = 0; e < weights.size(); ++e) sum += weights[e] = shares[e] < 1 ? 1 : 0;
    }
    is_final = true;
    for (std::size_t e = 0; e < weights.size() && rest > 0; ++e) {
      if (shares[e] < 1 && weights[e] * rest >= sum) {
        shares[e] = 1;
        is_final = false;
      }
    }
    for (std::size_t e = 0; e < weights.size() && is_final; ++e) {
      if (shares[e] < 1) shares[e] = weights[e] * rest / sum;
    }
    rest = static_cast<double>(n_chosen);
    for (std::size_t e = 0; e < weights.size(); ++e) {
      if (shares[e] < 1) continue;
      rest -= 1;
      weights[e] = 0;
    }
  }
  return shares;
}

// Reads a trace: its lines, or its only object.
class TraceReader {
 public:
  explicit TraceReader(const ModelConfig& config)
      : config_(config), counts_(Layers(config), std::vector<double>(Experts(config), 0.0)) {}

  Status ReadLoads(const JsonValue& file) {
    FieldReader fields(file, "", {"loads", "source"});
    const JsonValue* loads = fields.Require("loads");
    if (loads == nullptr) return Finish(fields);
    const std::size_t n = loads->items().size();
    if (!loads->IsArray() || (n != 1 && n != counts_.size())) {
      fields.Fail("loads", fmt::format("{} lists, one for each layer", counts_.size()),
                  loads->IsArray() ? fmt::format("{} lists", n) : loads->Describe());
    }
    for (std::size_t i = 0; i < counts_.size() && !fields.error(); ++i) {
      ReadLayer(fields, loads->items()[n == 1 ? 0 : i], fmt::format("loads[{}]", i), i);
    }
    return Finish(fields);
  }

  Status ReadChoice(const JsonValue& line) {
    FieldReader reader(line, "", {"layer", "experts"});
    std::int64_t layer = 0;
    reader.Require("layer");
    reader.ReadInteger("layer", {0, config_.num_hidden_layers - 1}, &layer);
    const JsonValue* experts = reader.Require("experts");
    if (experts != nullptr && !experts->IsArray()) reader.Fail("experts", "a list", *experts);
    for (std::size_t i = 0; !reader.error() && i < experts->items().size(); ++i) {
      const std::optional<std::int64_t> expert = reader.ToInteger(
          experts->items()[i], fmt::format("experts[{}]", i), {0, config_.n_routed_experts - 1});
      if (expert) ++counts_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(*expert)];
    }
    return Finish(reader);
  }

  ExpertLoad Take() {
    for (std::vector<double>& layer : counts_) {
      layer = ComputeShares(std::move(layer), config_.num_experts_per_tok);
    }
    return std::move(counts_);
  }

 private:
  static Status Finish(const FieldReader& reader) {
    if (reader.error()) return Unexpected(*reader.error());
    return {};
  }

  void ReadLayer(FieldReader& reader, const JsonValue& list, const std::string& path,
                 std::size_t layer) {
    if (!list.IsArray() || list.items().size() != Experts(config_)) {
      reader.Fail(path, fmt::format("{} numbers, one for each expert", Experts(config_)),
                  list.IsArray() ? fmt::format("{}", list.items().size()) : list.Describe());
      return;
    }
    for (std::size_t e = 0; e < list.items().size(); ++e) {
      counts_[layer][e] =
          reader.ToNumber(list.items()[e], fmt::format("{}[{}]", path, e), {0, kLargest})
              .value_or(0);
    }
  }

  const ModelConfig& config_;
  ExpertLoad counts_;
};

// Reads lines of objects, skipping blank lines.
Status ReadLines(std::string_view text, TraceReader& trace) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidData, "expected loads or chosen experts, found nothing");
  }
  LineReader lines(text);
  std::string_view line;
  for (std::size_t number = 1; lines.Next(&line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string name = fmt::format("line {}", number);
    const Result<JsonValue> json = ParseJsonObject(line, name);
    if (!json) return Unexpected(json.error());
    if (const Status read = trace.ReadChoice(*json); !read) {
      return MakeError(ErrorCode::kInvalidData, "{}: {}", name, read.error().message);
    }
  }
  return {};
}

}  // namespace

ExpertLoad ZipfLoad(const ModelConfig& config, double exponent) {
  std::vector<double> weights;
  for (std::size_t i = 1; i <= Experts(config); ++i) {
    weights.push_back(std::pow(static_cast<double>(i), -exponent));
  }
  std::mt19937_64 random(0);
  ExpertLoad load;
  for (std::size_t layer = 0; layer < Layers(config); ++layer) {
    // Not std::shuffle: its result depends on the library.
    for (std::size_t i = weights.size(); i > 1; --i) {
      std::swap(weights[i - 1], weights[random() % i]);
    }
    load.push_back(ComputeShares(weights, config.num_experts_per_tok));
  }
  return load;
}

Result<ExpertLoad> ParseExpertTrace(std::string_view text, std::string_view file_name,
                                    const ModelConfig& config) {
  TraceReader trace(config);
  const Result<JsonValue> whole = ParseJson(text, {.python_constants = false});
  const Status read = whole && whole->Find("experts") == nullptr && whole->IsObject()
                          ? trace.ReadLoads(*whole)
                          : ReadLines(text, trace);
  if (!read) return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, read.error().message);
  return trace.Take();
}

}  // namespace fathom::measure::plan
