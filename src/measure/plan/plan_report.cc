#include "measure/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "json/json_value.h"
#include "json/json_writer.h"
#include "measure/plan/hardware.h"

namespace fathom::measure::plan {
namespace {

constexpr double kKilo = 1e3;

std::string_view Name(ExpertPath exchange) {
  return exchange == ExpertPath::kFused ? "fused" : "unfused";
}

std::string DescribeModel(const ModelSizes& model) {
  return fmt::format("model     {}, {:.2f} GB of weights, {:.2f} KB of cache a token\n",
                     model.name(), Number(model.bytes()) / kGiga,
                     model.CacheBytesPerToken() / kKilo);
}

std::string Heading(const ModelSizes& model, const PlannedLayouts& plan) {
  const Hardware& hardware = plan.hardware;
  const Workload& work = plan.workload;
  return DescribeModel(model) +
         fmt::format(
             "hardware  {}{}{} node{} of {} device{}, {:.1f} GB each, read {:.0f} GB/s, "
             "{:.1f} TFLOP/s in bf16\n"
             "work      {} sequence{} at a depth of {}, prompts of {} in chunks of {}, experts "
             "exchanged {}\n\n",
             hardware.name, hardware.name.empty() ? "" : ": ", hardware.n_nodes,
             hardware.n_nodes == 1 ? "" : "s", hardware.devices_per_node,
             hardware.devices_per_node == 1 ? "" : "s", hardware.device.memory_bytes / kGiga,
             hardware.device.bytes_per_second / kGiga, hardware.device.bf16_flops / 1e12,
             work.concurrency, work.concurrency == 1 ? "" : "s", work.context, work.prompt,
             work.chunk, Name(work.experts.exchange));
}

std::string RowText(const PlannedLayout& row) {
  const ParallelLayout& layout = row.layout;
  const std::string counts =
      fmt::format("{:>3} {:>3} {:>3} {:>4} {:>4}", layout.n_tensor, layout.n_stages,
                  layout.n_expert(), layout.n_data, layout.n_replicas);
  if (row.token_seconds == 0) return fmt::format("{}  {}\n", counts, row.problem);
  return fmt::format(
      "{} {:>8.2f} {:>7.2f} {:>8} {:>10.1f} {:>9.2f} {:>10.1f} {:>9.1f} {:>6.2f}  {}\n", counts,
      Number(row.weights) / kGiga, Number(row.caches) / kGiga, row.most_sequences,
      row.first_token_seconds * kKilo, row.token_seconds * kKilo, row.tokens_per_second,
      row.wire.Total() / kKilo, row.imbalance,
      !row.fits()                      ? row.problem
      : layout.is_estimate()           ? "estimate"
      : layout.decode_context_parallel ? "--decode-context-parallel"
                                       : "");
}

JsonValue ToJson(const WireBytes& bytes) {
  return {{"embedding", bytes.embedding}, {"sums", bytes.sums},    {"experts", bytes.experts},
          {"choice", bytes.choice},       {"rows", bytes.rows},    {"streams", bytes.streams},
          {"logits", bytes.logits},       {"total", bytes.Total()}};
}

JsonValue ToJson(const StageTime& time) {
  return {{"dense", time.dense},       {"experts", time.experts}, {"attention", time.attention},
          {"exchange", time.exchange}, {"streams", time.streams}, {"overhead", time.overhead}};
}

JsonValue ToJson(const PlannedLayouts& plan, const PlannedLayout& row) {
  const ParallelLayout& layout = row.layout;
  return {{"flags", Flags(layout)},
          {"tp", layout.n_tensor},
          {"pp", layout.n_stages},
          {"ep", layout.n_expert()},
          {"dp_attention", layout.n_data},
          {"decode_context_parallel", layout.decode_context_parallel},
          {"replicas", layout.n_replicas},
          {"fits", row.fits()},
          {"problem", row.problem},
          {"estimate", row.layout.is_estimate()},
          {"weight_bytes", row.weights},
          {"workspace_bytes", row.workspace},
          {"cache_bytes", row.caches},
          {"capacity_sequences", row.most_sequences},
          {"capacity_tokens", row.most_sequences * plan.workload.context},
          {"ttft_s", row.first_token_seconds},
          {"tpot_s", row.token_seconds},
          {"tokens_per_s", row.tokens_per_second},
          {"tokens_per_s_without_balancing", row.plain_tokens_per_second},
          {"prompt_tokens_per_s", row.prompt_tokens_per_second},
          {"tpot_parts_s", ToJson(row.token_time)},
          {"wire_bytes_per_token", ToJson(row.wire)},
          {"expert_bytes_per_token",
           {{"unfused", row.gathered_expert_bytes}, {"fused", row.fused_expert_bytes}}},
          {"wire_bytes_per_step", row.step_bytes},
          {"imbalance", {{"plain", row.plain_imbalance}, {"balanced", row.imbalance}}}};
}

JsonValue ToJson(const Workload& work) {
  JsonValue json = {{"context", work.context},
                    {"prompt", work.prompt},
                    {"concurrency", work.concurrency},
                    {"chunk", work.chunk},
                    {"micro_batches", work.micro_batches},
                    {"exchange", Name(work.experts.exchange)},
                    {"redundant_experts", nullptr}};
  if (work.experts.n_redundant) json["redundant_experts"] = *work.experts.n_redundant;
  return json;
}

// Returns the tokens per second with a disk of so many GB/s.
double RateWithDisk(const HostPrediction& hosts, double disk) {
  return 1 / hosts.SecondsPerToken({.disk = disk * kGiga, .memory = hosts.speeds.memory});
}

}  // namespace

std::string ToTable(const ModelSizes& model, const PlannedLayouts& plan, std::int64_t n_rows) {
  std::string text = Heading(model, plan);
  text += fmt::format(
      "{:>3} {:>3} {:>3} {:>4} {:>4} {:>8} {:>7} {:>8} {:>10} {:>9} {:>10} {:>9} {:>6}\n"
      "{:>3} {:>3} {:>3} {:>4} {:>4} {:>8} {:>7} {:>8} {:>10} {:>9} {:>10} {:>9} {:>6}\n",
      "", "", "", "dp-", "re-", "weights", "caches", "room for", "TTFT", "TPOT", "", "sent KB",
      "imba-", "tp", "pp", "ep", "attn", "plic", "GB/rank", "GB/rank", "seqs", "ms", "ms", "tok/s",
      "a token", "lance");
  const auto n_all = std::ssize(plan.rows);
  const std::int64_t n_shown = n_rows == 0 ? n_all : std::min<std::int64_t>(n_rows, n_all);
  for (std::int64_t i = 0; i < n_shown; ++i) {
    text += RowText(plan.rows[static_cast<std::size_t>(i)]);
  }
  if (n_shown < n_all) {
    text += fmt::format("... and {} more (--top 0 shows all)\n", n_all - n_shown);
  }
  if (const PlannedLayout* best = plan.Recommended()) {
    fmt::format_to(std::back_inserter(text), "\nrecommended: {}", Flags(best->layout));
    if (best->layout.n_replicas > 1) {
      fmt::format_to(std::back_inserter(text), ", {} replicas of {} rank{}",
                     best->layout.n_replicas, best->layout.replica_ranks(),
                     best->layout.replica_ranks() == 1 ? "" : "s");
    }
    text += '\n';
    if (plan.workload.experts.n_redundant && best->layout.n_expert() > 1) {
      fmt::format_to(
          std::back_inserter(text),
          "balancing:   imbalance {:.2f} -> {:.2f}, decoding {:.1f} -> {:.1f} tokens/s\n",
          best->plain_imbalance, best->imbalance, best->plain_tokens_per_second,
          best->tokens_per_second);
    }
  } else {
    text += "\nrecommended: none, as nothing fits\n";
  }
  return text;
}

std::string ToJson(const ModelSizes& model, const PlannedLayouts& plan) {
  const Hardware& hardware = plan.hardware;
  JsonValue json = {{"model", model.name()},
                    {"model_bytes", model.bytes()},
                    {"cache_bytes_per_token", model.CacheBytesPerToken()},
                    {"hardware",
                     {{"name", hardware.name},
                      {"nodes", hardware.n_nodes},
                      {"devices_per_node", hardware.devices_per_node},
                      {"memory_bytes", hardware.device.memory_bytes}}},
                    {"workload", ToJson(plan.workload)},
                    {"recommended", nullptr},
                    {"rows", JsonValue::Array()}};
  if (const PlannedLayout* best = plan.Recommended()) json["recommended"] = ToJson(plan, *best);
  for (const PlannedLayout& row : plan.rows) json["rows"].push_back(ToJson(plan, row));
  // The name of a directory may contain any bytes.
  return WriteJson(json, 2) + "\n";
}

std::string ToTable(const ModelSizes& model, const HostPrediction& hosts) {
  std::string text = DescribeModel(model);
  std::string_view name = "host";
  for (const std::string& line : Describe(hosts)) {
    text += fmt::format("{:<10}{}\n", std::exchange(name, ""), line);
  }
  if (hosts.Fits()) return text;
  std::string disks = "disk GB/s";
  std::string rates = "tokens/s ";
  for (const double disk : kComparedDisks) {
    disks += fmt::format(" {:>7.3g}", disk);
    rates += fmt::format(" {:>7.2f}", RateWithDisk(hosts, disk));
  }
  return text + "\n" + disks + "\n" + rates + "\n";
}

std::string ToJson(const ModelSizes& model, const HostPrediction& hosts) {
  JsonValue rates = JsonValue::Array();
  for (const double disk : kComparedDisks) {
    rates.push_back({{"disk_gb_s", disk}, {"tokens_per_s", RateWithDisk(hosts, disk)}});
  }
  JsonValue json = {{"model", model.name()}, {"model_bytes", model.bytes()}};
  json.Update(measure::ToJson(hosts));
  json["by_disk"] = std::move(rates);
  return WriteJson(json, 2) + "\n";
}

}  // namespace fathom::measure::plan
